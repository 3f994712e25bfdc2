"""Muon against Burn's vectors, torch.optim.Muon, and its formula by singular values in float64."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import ConfigError, ShapeError
from burnlike.module import ParamGroup, params
from burnlike.optim import AdamWConfig, GradientsParams, MomentumConfig, Muon, MuonConfig, OptimizerGroupConfig
from burnlike.optim.rules import muon as module_of_iterations
from burnlike.optim.rules.muon import orthogonalized
from burnlike.record import open_record
from burnlike.record.recorder import recorder_for

COEFFICIENTS = (3.4445, -4.775, 2.0315)
SHAPES = [(6, 6), (8, 3), (3, 8), (6, 6), (1, 5), (8, 3)]


def matrices(*shapes: tuple[int, int], dtype: torch.dtype = torch.float64) -> nn.ParameterList:
    generator = torch.Generator().manual_seed(7)
    return nn.ParameterList([torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes])


def give_gradients(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter.dtype)


def by_singular_values(matrix: Tensor, steps: int = 5) -> Tensor:
    """The iterations act on each singular value alone: s <- a s + b s^3 + c s^5 from s / norm."""
    u, values, v = np.linalg.svd(matrix.double().numpy(), full_matrices=False)
    values = values / max(math.sqrt((values**2).sum()), 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        values = a * values + b * values**3 + c * values**5
    return torch.from_numpy(u * values @ v)


@pytest.mark.parametrize("adjust", ["Original", "OriginalTransposed", "MatchRmsAdamW"])
@pytest.mark.parametrize(("dampening", "nesterov"), [(0.0, True), (0.0, False), (0.3, True)])
def test_steps_are_the_formula_in_float64(adjust: Any, dampening: float, nesterov: bool) -> None:
    momentum = MomentumConfig(momentum=0.9, dampening=dampening, nesterov=nesterov)
    config = MuonConfig(weight_decay=0.1, momentum=momentum, adjust_lr_fn=adjust)
    model, optimizer, lr = matrices(*SHAPES), config.init(), 0.02
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    velocities: list[Tensor] = []
    for seed in range(4):
        give_gradients(model, seed)
        grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        optimizer.step(lr, model, GradientsParams.from_module(model))
        if velocities:
            velocities = [0.9 * v + (1 - dampening) * grad for v, grad in zip(velocities, grads, strict=True)]
        else:
            velocities = grads
        for place, (grad, velocity) in enumerate(zip(grads, velocities, strict=True)):
            rows, columns = grad.shape
            ratio = {
                "Original": max(1, rows / columns) ** 0.5,
                "OriginalTransposed": max(1, columns / rows) ** 0.5,
                "MatchRmsAdamW": 0.2 * max(rows, columns) ** 0.5,
            }[adjust]
            update = by_singular_values(grad + 0.9 * velocity if nesterov else velocity)
            expected[place] = expected[place] * (1 - lr * 0.1) - lr * ratio * update
        for parameter, values in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.detach(), values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_steps_in_bfloat16_are_those_of_torch(adjust: str) -> None:
    ours, theirs = matrices((32, 32), (48, 16), dtype=torch.float32), matrices((32, 32), (48, 16), dtype=torch.float32)
    names: dict[str, Any] = {"original": "Original", "match_rms_adamw": "MatchRmsAdamW"}
    optimizer = MuonConfig(weight_decay=0.1, adjust_lr_fn=names[adjust], ns_dtype="bfloat16").init()
    their_optimizer = torch.optim.Muon(theirs.parameters(), lr=0.02, weight_decay=0.1, adjust_lr_fn=adjust)
    before = [parameter.detach().clone() for parameter in ours.parameters()]
    for seed in range(5):
        give_gradients(ours, seed)
        give_gradients(theirs, seed)
        optimizer.step(0.02, ours, GradientsParams.from_module(ours))
        their_optimizer.step()
    for one, other, start in zip(ours.parameters(), theirs.parameters(), before, strict=True):
        moved = (other - start).norm()
        assert (one - other).norm() < 0.02 * moved, "bfloat16 has three digits"


def test_matrices_together_are_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [parameter.detach() for parameter in matrices(*SHAPES)]
    together = orthogonalized(some, COEFFICIENTS, 1e-7, 5, torch.float64)
    monkeypatch.setattr(module_of_iterations, "MOST_VALUES", 1)
    alone = orthogonalized(some, COEFFICIENTS, 1e-7, 5, torch.float64)
    for matrix, one, other in zip(some, together, alone, strict=True):
        assert one.shape == matrix.shape
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(one, by_singular_values(matrix), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("most", [1, 80, 1000])
def test_batches_hold_so_many_values_at_most(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(module_of_iterations, "MOST_VALUES", most)
    seen = []
    iterated = module_of_iterations._iterated

    def counted(x: Tensor, *arguments: Any) -> Tensor:
        seen.append(tuple(x.shape))
        return iterated(x, *arguments)

    monkeypatch.setattr(module_of_iterations, "_iterated", counted)
    orthogonalized([torch.ones(4, 10), torch.ones(10, 4), torch.ones(4, 10)], COEFFICIENTS, 1e-7, 5, torch.float32)
    assert seen == {1: [(1, 4, 10)] * 3, 80: [(2, 4, 10), (1, 4, 10)], 1000: [(3, 4, 10)]}[most]


def test_a_gradient_of_zeros_moves_nothing_but_by_decay() -> None:
    for weight_decay in (0.0, 0.01):
        model = nn.ParameterList([torch.full((4, 4), 2.0)])
        model[0].grad = torch.zeros(4, 4)
        MuonConfig(weight_decay=weight_decay).init().step(0.5, model, GradientsParams.from_module(model))
        torch.testing.assert_close(model[0].detach(), torch.full((4, 4), 2.0 * (1 - 0.5 * weight_decay)))


def test_an_empty_matrix_and_a_single_value_are_matrices() -> None:
    model = nn.ParameterList([torch.zeros(0, 3), torch.ones(1, 1), torch.zeros(3, 0)])
    optimizer = MuonConfig(weight_decay=0.1).init()
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step(0.1, model, GradientsParams.from_module(model))
    assert model[1].item() < 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_updated_in_float32(dtype: torch.dtype) -> None:
    half, full = matrices((6, 4), dtype=dtype), matrices((6, 4), dtype=torch.float32)
    with torch.no_grad():
        full[0].copy_(half[0])
    optimizers = [MuonConfig().init() for _ in range(2)]
    for model, optimizer in zip((half, full), optimizers, strict=True):
        model[0].grad = torch.linspace(-1, 1, 24).view(6, 4).to(dtype).to(model[0].dtype)
        optimizer.step(0.1, model, GradientsParams.from_module(model))
    assert half[0].dtype == dtype
    assert torch.equal(half[0], full[0].to(dtype))
    assert [it.dtype for it in optimizers[0].to_record().tensors.values()] == [torch.float32]


def test_a_typed_step_changes_nothing_that_is_handed_in() -> None:
    rule = MuonConfig().build()
    tensor, grad = bl.Tensor(torch.eye(3, 2)), bl.Tensor(torch.ones(3, 2))
    values, state = rule.step(0.1, tensor, grad, None)
    again, _ = rule.step(0.1, values, grad, state)
    assert torch.equal(tensor.inner, torch.eye(3, 2))
    assert torch.equal(state.momentum.velocity, torch.ones(3, 2))
    assert not torch.equal(again.inner, values.inner)


@pytest.mark.parametrize("extension", ["safetensors", "bpk", "mpk", "json"])
def test_a_resumed_training_has_the_same_bits(extension: str, tmp_path: Path) -> None:
    model, optimizer = matrices(*SHAPES), MuonConfig(weight_decay=0.1).init()
    give_gradients(model, 0)
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    path = tmp_path / f"optimizer.{extension}"
    record = optimizer.to_record()
    assert set(record.tensors) == {f"{param.id}.momentum.velocity" for param in params(model)}
    recorder_for(path).save(record, path)
    copy = matrices(*SHAPES)
    bl.record.Record.from_module(model).load_into(copy)
    other = MuonConfig(weight_decay=0.1).init().load_record(open_record(path), copy)
    for its_model, it in ((model, optimizer), (copy, other)):
        give_gradients(its_model, 1)
        it.step(0.1, its_model, GradientsParams.from_module(its_model))
    assert all(map(torch.equal, model.parameters(), copy.parameters()))


def test_other_parameters_are_refused_with_a_hint_that_works() -> None:
    model = nn.ModuleDict({"blocks": nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), "norm": nn.LayerNorm(2)})
    give_gradients(model, 0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(ConfigError, match=r"'blocks\.0\.bias' of shape \[3\]: .* 2D tensors, got 1D.* as a group"):
        MuonConfig().init().step(0.1, model, GradientsParams.from_module(model))
    assert all(map(torch.equal, model.parameters(), before))
    group = OptimizerGroupConfig(params=ParamGroup.from_regex(r"^blocks.*weight$"), optimizer=MuonConfig())
    optimizer = AdamWConfig(groups=(group,)).init()
    give_gradients(model, 0)
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    fields = {name.partition(".")[2] for name in optimizer.to_record().tensors}
    assert fields == {"momentum.velocity", "momentum.moment_1", "momentum.moment_2"}


def test_a_frozen_parameter_of_another_rank_is_no_error() -> None:
    model = nn.Linear(3, 3)
    assert model.bias is not None
    model.bias.requires_grad_(False)
    model(torch.ones(1, 3)).sum().backward()
    MuonConfig().init().step(0.1, model, GradientsParams.from_module(model))


@pytest.mark.parametrize("shape", [(3,), (), (2, 2, 2)])
def test_a_list_with_no_matrix_is_refused(shape: tuple[int, ...]) -> None:
    rule: Muon = MuonConfig().build()
    with pytest.raises(ShapeError, match=f"requires 2D tensors, got {len(shape)}D"):
        rule.step_many(0.1, [torch.ones(shape)], [torch.ones(shape)], [None])


def test_a_velocity_of_another_shape_is_refused_not_taken_for_none() -> None:
    model, optimizer = matrices((3, 2)), MuonConfig().init()
    give_gradients(model, 0)
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    record = optimizer.to_record()
    (name,) = record.tensors
    record.tensors[name] = torch.ones(6)
    other = MuonConfig().init().load_record(record)  # without a module to compare it with
    give_gradients(model, 1)
    before = model[0].detach().clone()
    with pytest.raises(ShapeError, match=r"a velocity has shape \[6\], its matrix \[3, 2\]"):
        other.step(0.1, model, GradientsParams.from_module(model))
    assert torch.equal(model[0], before)


def test_the_config_is_read_from_yaml() -> None:
    text = "type: Muon\nmomentum: {momentum: 0.9}\nns_coefficients: [3.0, -4.0, 2.0]\nns_dtype: bfloat16\n"
    config = MuonConfig.from_yaml(text)
    assert config.ns_coefficients == (3.0, -4.0, 2.0)
    assert MuonConfig.from_yaml(config.to_yaml()) == config
