"""Models train over backends that are not torch's, to the numbers of `Autodiff<Cpu>`."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import burnlike as bl
from burnlike import Autodiff, Cpu, Int, Tensor
from burnlike.errors import BackendError
from burnlike.models.decoder_lm.configs import DecoderLmConfig
from burnlike.optim import AdamWConfig, GradientsParams
from tests.tensor.test_vectors import RECORDS
from tests.vectors.cases import input_of, is_program, run
from tests.vectors.program import Program

from .counting import Beside, Changed, Counting, leaving_torch

NUMPY = Changed(leaving_torch)
WIDE_NUMPY, WIDE_CPU = Changed(leaving_torch, float=torch.float64), Cpu(float=torch.float64)
PROGRAMS = [record for record in RECORDS if is_program(record)]


class Classifier(bl.Module):
    """Layers of burnlike's and of torch's, methods and functions of typed tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = bl.nn.Conv2dConfig(channels=(1, 4), kernel_size=(3, 3)).init()
        self.norm = bl.nn.LayerNormConfig(d_model=36).init()
        self.hidden = torch.nn.Linear(36, 8)
        self.out = bl.nn.LinearConfig(d_input=8, d_output=3).init()

    def forward(self, x: Any) -> Any:
        x = torch.max_pool2d(F.gelu(self.conv(x)), 2)
        x = self.norm(x.flatten(1, 3, rank=2))
        return self.out(torch.tanh(self.hidden(x)) * 2.0)


def trained(backend: Any, steps: int) -> tuple[list[float], list[torch.Tensor]]:
    """Losses and weights of steps on one batch."""
    torch.manual_seed(0)
    model: Any = Classifier()
    images = Tensor(torch.randn(5, 1, 8, 8), backend)
    classes = Tensor(torch.tensor([0, 1, 2, 1, 0]), backend)
    loss_of, optimizer, losses = bl.nn.CrossEntropyLossConfig().init(), AdamWConfig().init(), []
    for _ in range(steps):
        loss: Any = loss_of(model(images), classes)
        losses.append(loss.into_scalar())
        grads = GradientsParams.from_grads(loss.backward(), model)
        model = optimizer.step(0.05, model, grads)
    return losses, [it.detach() for it in model.parameters()]


@pytest.mark.parametrize("make", [lambda: NUMPY, Counting], ids=["numpy", "counting"])
def test_a_model_trains_to_the_same_numbers(make: Any) -> None:
    losses, weights = trained(Autodiff(make()), 4)
    expected_losses, expected_weights = trained(Autodiff(Cpu()), 4)
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    assert losses[-1] < losses[0]
    for one, other in zip(weights, expected_weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_every_operation_of_a_model_its_loss_and_its_derivatives_is_counted() -> None:
    backend = Counting()
    torch.manual_seed(0)
    model = DecoderLmConfig(vocab_size=11, max_sequence_length=6, d_model=8, n_layers=2, n_heads=2, d_ff=16).init()
    tokens = Tensor(torch.tensor([[1, 4, 2, 9], [3, 3, 0, 7]]), Autodiff(backend))
    loss_of = bl.nn.CrossEntropyLossConfig().init()
    counts = []
    with Beside(backend) as beside:
        logits: Any = model(tokens)
        counts.append(len(backend.log))
        loss = loss_of(logits.flatten(0, 1, rank=2), tokens.flatten(0, 1, rank=1))
        counts.append(len(backend.log))
        grads = GradientsParams.from_grads(loss.backward(), model)
        counts.append(len(backend.log))
    assert beside.found == []
    assert 0 < counts[0] < counts[1] < counts[2]
    assert len(grads) == len(list(model.parameters()))
    assert {"module_ops.embedding", "float_ops.matmul", "activation_ops.softmax"} <= {*backend.log}


def gradients_of(record: Any, backend: Any) -> dict[str, torch.Tensor]:
    """The gradients of a program's inputs."""
    inputs = {name: input_of(value, backend) for name, value in record["inputs"].items()}
    program = Program(record["program"], inputs, backend)
    for statement in program.statements:
        program.run(statement)
    found = program.names["loss"].backward()
    names = record["expected_grads"]
    return {name: it.inner for name in names if (it := program.names[name].grad(found)) is not None}


@pytest.mark.parametrize("backend", [NUMPY, Counting()], ids=["numpy", "counting"])
def test_burns_derivatives_are_those_of_cpu(backend: Any) -> None:
    # In float64, where what cancels is left with digits to compare.
    wide = Counting(float=torch.float64) if isinstance(backend, Counting) else WIDE_NUMPY
    faults = []
    for record in PROGRAMS:
        outcome = run(record, Autodiff(backend))
        if outcome.verdict != "passed":
            faults.append(f"{record['id']}: {outcome.reason}")
        elif isinstance(record.get("expected_grads"), dict) and "backward" not in record["program"]:
            found, expected = (gradients_of(record, Autodiff(it)) for it in (wide, WIDE_CPU))
            for name, grad in expected.items():
                scale = max(1.0, grad.abs().max().item()) if grad.numel() else 1.0
                if not torch.allclose(found[name] / scale, grad / scale, rtol=1e-6, atol=1e-6, equal_nan=True):
                    faults.append(f"{record['id']}: {name}: {found[name]} for {grad}")
    assert len(PROGRAMS) == 173
    assert not faults, "\n".join(faults)


def test_a_derivative_can_be_differentiated() -> None:
    found = []
    for backend in (Autodiff(NUMPY), Autodiff(Counting()), Autodiff(Cpu())):
        x: Any = Tensor(torch.tensor([[0.5, -1.0], [2.0, 0.25]]), backend).require_grad()
        first = x.grad((x.sin() * x).matmul(x.tanh()).sum().backward(create_graph=True))
        found.append(x.grad((Tensor(first.inner, backend) * x).sum().backward()).inner)
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[1], found[2])


def test_what_has_no_function_in_the_tables_is_named() -> None:
    x = Tensor(torch.eye(3) + 1, Counting())
    with pytest.raises(BackendError, match=r"torch's aten\.linalg_inv_ex.* is not made of functions of the"):
        torch.linalg.inv(x)
    with pytest.raises(BackendError, match=r"torch's aten\._fft_r2c"):
        torch.fft.rfft(x)
    with pytest.raises(BackendError, match="torch generator"):
        torch.bernoulli(x.clamp(0, 1), generator=torch.Generator())


def test_torch_writes_through_views_whatever_the_backend_gives() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(2, 4, dtype=x.dtype)
        made[:, :2] = x * 3
        made[1].add_(1.0)
        made.t()[3].mul_(x.sum())
        return made

    plain = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    halves(plain).square().sum().backward()
    for backend in (NUMPY, Counting()):
        x: Any = Tensor(plain.detach(), Autodiff(backend)).require_grad()
        result: Any = bl.tensor.lift(halves)(x)
        torch.testing.assert_close(result.inner, halves(plain))
        torch.testing.assert_close(x.grad((result * result).sum().backward()).inner, plain.grad)


def test_the_own_backend_is_left_after_an_error() -> None:
    backend = Counting()
    x, ids = Tensor(torch.ones(2, 3), backend), Tensor.zeros((1, 2), backend, kind=Int)
    with pytest.raises(RuntimeError):
        torch.matmul(x, x)
    with pytest.raises(IndexError):
        F.embedding(ids + 9, x)
    backend.log.clear()
    torch.relu(torch.ones(2))
    assert backend.log == []
