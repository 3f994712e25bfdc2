"""Sgd against Burn's steps, in the test vectors and in its files."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.optim import GradientsParams, MomentumConfig, MomentumState, SgdConfig, SgdState
from burnlike.record import open_record
from burnlike.record.recorder import recorder_for
from tests.optim.steps import train


def test_the_defaults_are_burns() -> None:
    assert (SgdConfig().weight_decay, SgdConfig().momentum) == (0.0, None)
    momentum = MomentumConfig()
    assert (momentum.momentum, momentum.dampening, momentum.nesterov) == (0.9, 0.1, False)
    assert SgdConfig.from_yaml("type: Sgd\nmomentum: {momentum: 0.8}").momentum == MomentumConfig(momentum=0.8)


@pytest.mark.parametrize("extension", ["safetensors", "mpk", "bpk", "bin"])
def test_without_momentum_a_record_knows_the_parameters_and_no_tensors(tmp_path: Path, extension: str) -> None:
    model, optimizer = nn.Linear(2, 2), SgdConfig().init()
    train(model, optimizer)
    record = optimizer.to_record()
    assert not record.tensors
    path = tmp_path / f"sgd.{extension}"
    recorder_for(path).save(record, path)
    layout = optimizer.record_layout() if extension == "bin" else None
    fresh = SgdConfig().init().load_record(open_record(path, layout=layout), model)
    assert fresh.load_report is not None
    assert sorted(fresh.load_report.by_id) == ["bias", "weight"]


def stepped(config: SgdConfig, states: list[SgdState | None], tensor: Tensor, grad: Tensor) -> Tensor:
    values = tensor.clone()
    config.build().step_many(0.1, [values], [grad], states)
    return values


def test_momentum_that_is_turned_on_later_begins_with_the_whole_gradient() -> None:
    tensor, grad = torch.randn(4).double(), torch.randn(4).double()
    config = SgdConfig(momentum=MomentumConfig(dampening=0.5))
    torch.testing.assert_close(stepped(config, [SgdState()], tensor, grad), tensor - 0.1 * grad)


def test_without_momentum_a_velocity_that_was_loaded_stays_as_it_is() -> None:
    velocity = torch.randn(4)
    states: list[Any] = [SgdState(MomentumState(velocity.clone()))]
    tensor, grad = torch.randn(4), torch.randn(4)
    (after,) = SgdConfig().build().step_many(0.1, [tensor], [grad], states)
    assert after is not None
    assert after.momentum is not None
    assert torch.equal(after.momentum.velocity, velocity)


def test_a_parameter_that_joins_later_has_a_first_step_of_its_own() -> None:
    model = nn.ParameterList([torch.zeros(3), torch.zeros(3)])
    optimizer = SgdConfig(momentum=MomentumConfig(momentum=0.9, dampening=0.5)).init()
    grads = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])]
    model[0].grad = grads[0]
    optimizer.step(1.0, model, GradientsParams.from_module(model))
    for param, grad in zip(model, grads, strict=True):
        param.grad = grad
    optimizer.step(1.0, model, GradientsParams.from_module(model))
    torch.testing.assert_close(model[0].detach(), -grads[0] - (0.9 + 0.5) * grads[0])
    torch.testing.assert_close(model[1].detach(), -grads[1])


def test_tensors_of_inference_mode_can_be_stepped() -> None:
    with torch.inference_mode():
        tensor = torch.ones(3)
    SgdConfig().build().step_many(0.5, [tensor], [torch.ones(3)], [None])
    assert torch.equal(tensor, torch.full((3,), 0.5))
