"""Torch's fused kernels and the steps one by one compute the same; each is used where it has to be."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike import nn
from burnlike.module import params
from burnlike.nn.recurrent import gru_sequence, recurrence
from burnlike.ops import half_products, native_status
from burnlike.ops._function import references
from tests.nn.cases import tensors_of

SIZES: dict[str, Any] = {"d_input": 3, "d_hidden": 4, "bias": True}
FUSED = [
    nn.RnnConfig(**SIZES),
    nn.RnnConfig(**SIZES, hidden_activation=nn.ReluConfig(), batch_first=False),
    nn.LstmConfig(**SIZES, reverse=True),
    nn.GruConfig(**SIZES),
    nn.BiRnnConfig(**SIZES),
    nn.BiLstmConfig(**SIZES, batch_first=False),
    nn.BiGruConfig(**SIZES),
]
fused = pytest.mark.parametrize("config", FUSED, ids=lambda config: type(config).__name__)


def made(config: Any, dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(0)
    return config.init().to(dtype)


def drawn(dtype: torch.dtype = torch.float64) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 5, 3, dtype=dtype, requires_grad=True)


def by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence, "_usable", lambda kernel, mask: False)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are called from now on."""
    called: list[str] = []

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(kernel: Any, *args: Any) -> Any:
            called.append(kernel.__name__)
            return function(kernel, *args)

        return call

    monkeypatch.setattr(recurrence, "_by_kernel", counting(recurrence._by_kernel))
    return called


@fused
def test_the_steps_one_by_one_give_what_the_kernel_gives(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    called = counted(monkeypatch)
    found = []
    for _ in range(2):
        layer, x = made(config), drawn()
        outputs = tensors_of(layer(x))
        sum((it * torch.arange(it.numel()).sin().view_as(it)).sum() for it in outputs).backward()  # pyright: ignore
        found.append((outputs, x.grad, [param.tensor.grad for param in params(layer)]))
        by_steps(monkeypatch)
    assert len(called) == 1
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "config", [nn.LstmConfig(**SIZES, reverse=True), nn.BiLstmConfig(**SIZES, batch_first=False)], ids=repr
)
def test_the_native_op_gives_what_the_steps_give_with_a_mask_too(config: Any, masked: bool) -> None:
    layer = made(config, torch.float32)
    torch.manual_seed(1)
    batch = 4 * torch.get_num_threads()
    x = torch.randn(*((batch, 5) if config.batch_first else (5, batch)), 3, requires_grad=True)
    mask = (torch.rand(x.shape[:2]) < 0.6).float() if masked else None
    state = layer(x)[1].map_state(lambda it: torch.randn_like(it).requires_grad_())
    leaves = [x, *state, *layer.parameters()]
    found, before = [], native_status().calls["lstm_"]
    for block in (nullcontext(), references()):
        with block:
            outputs = tensors_of(layer(x, state, mask))
        seeds = [torch.arange(it.numel()).sin().view_as(it) for it in outputs]
        found.append([*outputs, *torch.autograd.grad(outputs, leaves, seeds)])
    assert native_status().calls["lstm_"] == before + (2 if isinstance(config, nn.BiLstmConfig) else 1)
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [
        nn.RnnConfig(**SIZES, clip=0.5),
        nn.RnnConfig(**SIZES, hidden_activation=nn.SigmoidConfig()),
        nn.LstmConfig(**SIZES, input_forget=True),
        nn.LstmConfig(**SIZES, cell_activation=nn.SigmoidConfig()),
        nn.BiLstmConfig(**SIZES, clip=0.5),
        nn.GruConfig(**SIZES, reset_after=False),
        nn.BiGruConfig(**SIZES, gate_activation=nn.TanhConfig()),
    ],
    ids=repr,
)
def test_other_options_use_no_kernel(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    called = counted(monkeypatch)
    made(config)(drawn())
    assert not called


@fused
def test_float32_works_under_transforms_for_which_the_kernels_have_no_rules(config: Any) -> None:
    layer, x = made(config, torch.float32), drawn(torch.float32).detach()
    expected = tensors_of(layer(x))
    batched = torch.vmap(lambda y: tensors_of(layer(y)))(torch.stack((x, x)))
    torch.testing.assert_close([it[1] for it in batched], expected)
    tangents = torch.func.jvp(lambda y: tensors_of(layer(y))[0], (x,), (x,))[1]
    step = 1e-2
    difference = (tensors_of(layer(x + step * x))[0] - tensors_of(layer(x - step * x))[0]) / (2 * step)
    torch.testing.assert_close(tangents, difference, rtol=1e-2, atol=1e-3)


def test_compiled_training_of_float32_gives_the_same_gradients() -> None:
    layer, x = made(nn.LstmConfig(**SIZES), torch.float32), drawn(torch.float32).detach()
    layer(x)[0].sum().backward()
    expected = [param.tensor.grad for param in params(layer)]
    layer.zero_grad()
    torch.compile(layer, fullgraph=True, backend="aot_eager")(x)[0].sum().backward()
    torch.testing.assert_close([param.tensor.grad for param in params(layer)], expected)


def test_compiled_inference_keeps_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = made(nn.LstmConfig(**SIZES), torch.float32), drawn(torch.float32).detach()
    names: list[str] = []

    def noting(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        names.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    with torch.no_grad():
        found = torch.compile(layer, fullgraph=True, backend=noting)(x)
        torch.testing.assert_close(tensors_of(found), tensors_of(layer(x)))
    assert any("lstm" in name for name in names)
    assert not any("sigmoid" in name for name in names)


def test_gate_product_is_the_gate_before_its_activation() -> None:
    layer, x = made(nn.RnnConfig(**SIZES)), drawn()
    outputs, _ = layer(x)
    step = torch.tanh(layer.gate.gate_product(x[:, 1], outputs[:, 0]))
    torch.testing.assert_close(step, outputs[:, 1], rtol=1e-12, atol=1e-12)


def test_a_gate_alone_is_displayed_on_several_lines() -> None:
    assert str(nn.GateController(1, 2, False, nn.Zeros())).splitlines() == [
        "GateController {",
        "  input_transform: Linear {d_input: 1, d_output: 2, bias: false, params: 2}",
        "  hidden_transform: Linear {d_input: 2, d_output: 2, bias: false, params: 4}",
        "  params: 6",
        "}",
    ]


GRUS = [nn.GruConfig(**SIZES), nn.GruConfig(d_input=3, d_hidden=4, bias=False), nn.BiGruConfig(**SIZES)]


@pytest.mark.parametrize("config", GRUS, ids=repr)
@pytest.mark.parametrize("frozen", [(), (0,), (1,), (2, 3, 4)])
def test_gradients_of_a_gru_are_those_of_torch(
    config: Any, frozen: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    used, found = [], []
    original = gru_sequence.gru_sequence
    monkeypatch.setattr(gru_sequence, "gru_sequence", lambda *given: used.append(1) or original(*given))
    for gains in (gru_sequence.gains, lambda *_: False):
        monkeypatch.setattr(gru_sequence, "gains", gains)
        layer, x = made(config), drawn()
        state = torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(2, 2, 4).requires_grad_()
        given = [x, state, *(it.tensor for it in params(layer))]
        for place in frozen:
            given[place].requires_grad_(False)
        wanted = [it for it in given if it.requires_grad]
        outputs = tensors_of(layer(x, state if isinstance(layer, nn.BiGru) else state[0]))
        outputs[0].add_(1)  # what is returned may be changed in place
        loss = sum((it * torch.arange(it.numel()).sin().view_as(it)).sum() for it in outputs)
        first = torch.autograd.grad(loss, wanted, retain_graph=True)  # pyright: ignore[reportArgumentType]
        recorded = torch.autograd.grad(loss, wanted, create_graph=True)  # pyright: ignore[reportArgumentType]
        torch.testing.assert_close(recorded, first, rtol=1e-12, atol=1e-12)
        second = torch.autograd.grad(sum(it.square().sum() for it in recorded), wanted)  # pyright: ignore
        found.append([outputs, first, second])
    assert used
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_many_gradients_of_a_gru_are_taken_at_once() -> None:
    layer, x = made(GRUS[0]), drawn()
    one, all_at_once = (
        torch.autograd.functional.jacobian(layer, x, vectorize=is_vectorized) for is_vectorized in (False, True)
    )
    torch.testing.assert_close(all_at_once, one, rtol=1e-12, atol=1e-12)
    outputs: Any = layer(x)
    weights: Any = [it.tensor for it in params(layer)]
    grads = torch.stack([outputs.detach(), -outputs.detach()])
    found = torch.autograd.grad(outputs, weights, grads, is_grads_batched=True, retain_graph=True)
    for grad, expected in zip(found, torch.autograd.grad(outputs, weights, grads[0]), strict=True):
        torch.testing.assert_close(grad, torch.stack([expected, -expected]), rtol=1e-12, atol=1e-12)


def test_second_derivatives_where_the_state_of_a_gru_depends_on_its_input() -> None:
    x = drawn().detach().requires_grad_()
    weights = [torch.linspace(-1, 1, 12 * size, dtype=torch.float64).view(12, size) for size in (x.shape[2], 4)]
    state = x.sum(0)[:, :1].expand(-1, 4) * 0.1
    output, _ = gru_sequence.gru_sequence(x, state, weights, reverse=False)
    (expected,) = torch.autograd.grad(output.square().sum(), x, retain_graph=True)
    (found,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_gru_without_gradients_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gru_sequence, "gru_sequence", None)
    layer = made(GRUS[0])
    with torch.no_grad():
        layer(drawn())
    if torch.bfloat16 not in half_products.SLOW:  # there it computes in float32, as outside of autocast
        with torch.autocast("cpu", torch.bfloat16):
            layer.float()(drawn(torch.float32))


STEPS = [
    nn.LstmConfig(**SIZES),
    nn.LstmConfig(d_input=3, d_hidden=4, bias=False, batch_first=False, reverse=True),
    nn.LstmConfig(**SIZES, input_forget=True, clip=0.1),
    nn.LstmConfig(**SIZES, gate_activation=nn.TanhConfig(), hidden_activation=nn.ReluConfig()),
]


@pytest.mark.parametrize("config", STEPS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_by_the_weights_of_each_gate_is_that_of_the_kernel(
    config: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = made(config, dtype), drawn(dtype).detach()
    x = x[:, :1] if config.batch_first else x[:, :1].transpose(0, 1)
    state = nn.LstmState(*torch.randn(2, 2, 4, dtype=dtype))
    with torch.no_grad():
        found = tensors_of(layer(x, state))
        monkeypatch.setattr(recurrence, "_takes_one_step", lambda _: False)
        torch.testing.assert_close(found, tensors_of(layer(x, state)))
        assert len(found) == 3
    addresses = {it.untyped_storage().data_ptr() for it in found}
    assert len(addresses) == 3  # what is done to the output in place leaves the states alone


HALVES = [torch.bfloat16, torch.float16]


@fused
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("within_autocast", [True, False])
def test_16_bits_train_on_every_cpu(config: Any, dtype: torch.dtype, within_autocast: bool) -> None:
    """oneDNN has no LSTM in bfloat16 without AVX-512, and none in float16 without AMX: `torch.lstm` fails there."""
    layer, x = made(config), drawn()
    expected = tensors_of(layer(x))
    sum(it.sum() for it in expected).backward()  # pyright: ignore[reportAttributeAccessIssue]
    grads = [x.grad, *(param.tensor.grad for param in params(layer))]
    layer, x = made(config, torch.float32 if within_autocast else dtype), drawn()
    with torch.autocast("cpu", dtype, enabled=within_autocast):
        found = tensors_of(layer(x.to(torch.float32 if within_autocast else dtype)))
    keeps_float32 = within_autocast and "Gru" in type(layer).__name__
    assert {it.dtype for it in found} == {torch.float32 if keeps_float32 else dtype}
    sum(it.float().sum() for it in found).backward()  # pyright: ignore[reportAttributeAccessIssue]
    near = {"rtol": 0.0, "atol": 8 * torch.finfo(dtype).eps, "check_dtype": False}
    torch.testing.assert_close(found, expected, **near)
    for grad, wanted in zip([x.grad, *(param.tensor.grad for param in params(layer))], grads, strict=True):
        assert wanted is not None
        torch.testing.assert_close(grad, wanted, **{**near, "atol": near["atol"] * (1 + float(wanted.abs().max()))})


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_compiled_inference_within_autocast_on_every_cpu(dtype: torch.dtype) -> None:
    layer, x = made(nn.LstmConfig(**SIZES), torch.float32), drawn(torch.float32).detach()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.no_grad(), torch.autocast("cpu", dtype):
        torch.testing.assert_close(tensors_of(compiled(x)), tensors_of(layer(x)), rtol=0, atol=1e-2)
