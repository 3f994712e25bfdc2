"""The five steps of an optimizer on two devices; see test_sharded.py. Each `check_` is one test."""

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.backend import Backend
from burnlike.errors import DeviceError
from burnlike.module import params
from burnlike.optim import (
    AdamWConfig,
    ClipByGlobalNorm,
    GradientsParams,
    MultiGradientsParams,
    OptimizerAdaptor,
    SimpleOptimizer,
)
from examples.recording_backend import Recording

from .second_device import NAME, Second

B = TypeVar("B", bound=Backend)
D = TypeVar("D", bound=int)
RECORDING = Recording(Second())
"""The example of a backend, around the one of the second device."""


@dataclass
class Velocity(Generic[B, D]):
    """The state of HeavyBall."""

    velocity: bl.Tensor[B, D]


class HeavyBall(SimpleOptimizer[Velocity[Any, Any]]):
    """A user's own rule."""

    state_type = Velocity

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def backend_for(self, device: torch.device) -> Backend:
        """Recording on the second device."""
        return RECORDING if device.type == NAME else super().backend_for(device)

    def step(
        self, lr: float, tensor: bl.Tensor[B, D], grad: bl.Tensor[B, D], state: Velocity[B, D] | None
    ) -> tuple[bl.Tensor[B, D], Velocity[B, D]]:
        """Note where everything is."""
        parts = (tensor, grad) if state is None else (tensor, grad, state.velocity)
        self.seen.append(tuple(it.inner.device.type for it in parts))
        velocity = grad if state is None else state.velocity * 0.9 + grad
        return tensor - velocity * lr, Velocity(velocity)


def model_of() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def gradients(model: nn.Module, seed: int) -> GradientsParams:
    generator = torch.Generator().manual_seed(seed)
    grads = GradientsParams()
    for param in params(model):
        if param.trainable:
            grads.register(param, torch.randn(param.tensor.shape, generator=generator).to(param.tensor.device))
    return grads


def train(optimizer: OptimizerAdaptor[Any], devices: list[str]) -> nn.Sequential:
    """Three steps, each on a device."""
    model = model_of()
    for seed, device in enumerate(devices):
        model.to(device)
        optimizer.step(0.1, model, gradients(model, seed))
    return model.to("cpu")


def same(model: nn.Module, other: nn.Module) -> None:
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-6, atol=1e-7)


def check_1_a_parameter_without_gradient_is_left_alone() -> None:
    model = model_of().to(NAME)
    last = model.get_submodule("1").requires_grad_(False)
    before = last.get_parameter("weight").detach().cpu().clone()
    optimizer = OptimizerAdaptor(HeavyBall())
    optimizer.step(0.1, model, gradients(model, 0))
    assert torch.equal(last.get_parameter("weight").detach().cpu(), before)
    assert not any(str(param.id) in name for param in params(last) for name in optimizer.to_record().tensors)


def check_2_a_gradient_on_another_device_is_refused_and_nothing_changes() -> None:
    model = model_of()
    grads = gradients(model, 0)
    model.to(NAME)
    before = [parameter.detach().cpu().clone() for parameter in model.parameters()]
    optimizers: list[OptimizerAdaptor[Any]] = [OptimizerAdaptor(HeavyBall()), AdamWConfig().init()]
    for optimizer in optimizers:
        with pytest.raises(DeviceError, match=r"'0\.weight' is on 'cpu', expected 'second:0'; nothing was changed"):
            optimizer.step(0.1, model, grads)
        assert not optimizer.to_record().tensors
    for parameter, values in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter.detach().cpu(), values)
    optimizer = OptimizerAdaptor(HeavyBall())
    optimizer.step(0.1, model, grads.to_device(NAME, model))
    same(model.to("cpu"), train(OptimizerAdaptor(HeavyBall()), ["cpu"]))


def check_3_gradients_are_clipped_where_they_are() -> None:
    clipping = ClipByGlobalNorm(threshold=0.5)
    same(
        train(OptimizerAdaptor(HeavyBall(), clipping), [NAME] * 3),
        train(OptimizerAdaptor(HeavyBall(), clipping), ["cpu"] * 3),
    )


def check_4_a_state_follows_its_parameter_to_its_device_and_back() -> None:
    rule = HeavyBall()
    model = train(OptimizerAdaptor(rule), ["cpu", NAME, "cpu"])
    assert rule.seen == [("cpu",) * 2] * 4 + [(NAME,) * 3] * 4 + [("cpu",) * 3] * 4, rule.seen
    assert "float_ops.add" in RECORDING.log
    same(model, train(OptimizerAdaptor(HeavyBall()), ["cpu"] * 3))


def check_4_so_does_a_state_that_was_loaded() -> None:
    whole = train(OptimizerAdaptor(HeavyBall()), ["cpu"] * 3)
    optimizer = OptimizerAdaptor(HeavyBall())
    model = train(optimizer, ["cpu"] * 2).to(NAME)
    fresh = OptimizerAdaptor(HeavyBall()).load_record(optimizer.to_record(), model)
    fresh.load_record(fresh.to_record(), model)
    assert {tensor.device.type for tensor in fresh.to_record().tensors.values()} == {NAME}
    fresh.step(0.1, model, gradients(model, 2))
    same(model.to("cpu"), whole)


def check_5_the_state_stays_on_the_device_under_the_id() -> None:
    optimizer = OptimizerAdaptor(HeavyBall())
    model = model_of().to(NAME)
    optimizer.step(0.1, model, gradients(model, 0))
    record = optimizer.to_record()
    assert set(record.tensors) == {f"{param.id}.velocity" for param in params(model)}
    assert {tensor.device.type for tensor in record.tensors.values()} == {NAME}


def check_6_the_parameter_stays_a_trainable_leaf_with_its_id() -> None:
    model = model_of().to(NAME)
    before = [(param.id, param.tensor) for param in params(model)]
    OptimizerAdaptor(HeavyBall()).step(0.1, model, gradients(model, 0))
    for param, (param_id, tensor) in zip(params(model), before, strict=True):
        assert param.id == param_id
        assert param.tensor is tensor
        assert tensor.is_leaf
        assert tensor.requires_grad
        assert tensor.device.type == NAME


def check_gradients_of_both_devices_are_summed_for_a_step() -> None:
    model = model_of()
    there, here = model_of().to(NAME), gradients(model, 0)
    for param, other in zip(params(there), params(model), strict=True):
        param.adopt(other.id)
    multi = MultiGradientsParams().add(gradients(there, 1)).add(here)
    expected = [a + b for a, b in zip(gradients(model, 0).values, gradients(model, 1).values, strict=True)]
    found = multi.summed(model)
    assert {grad.device.type for _, grad in found} == {"cpu"}
    for grad, want in zip(found.values, expected, strict=True):
        torch.testing.assert_close(grad, want)


def main() -> None:
    """Run all; print what became of each as JSON."""
    outcomes = {}
    checks: dict[str, Callable[[], None]] = {name: it for name, it in globals().items() if name.startswith("check_")}
    for name, check in checks.items():
        try:
            check()
            outcomes[name] = ""
        except Exception:
            outcomes[name] = traceback.format_exc()
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
