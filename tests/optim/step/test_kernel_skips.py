"""Steps that kernels skip: decided on the device, as on CUDA; here on the CPU, where the adaptor would look itself."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.module import params
from burnlike.optim import (
    AdamConfig,
    AdamWConfig,
    GradientsParams,
    LionConfig,
    ModuleOptimizerConfig,
    MomentumConfig,
    OptimizerAdaptor,
    SgdConfig,
)
from burnlike.optim.step import adaptor
from burnlike.optim.step.batches import ParamBatch, SkippedSteps
from tests.optim.steps import assert_same

CONFIGS: list[ModuleOptimizerConfig] = [
    SgdConfig(),
    SgdConfig(momentum=MomentumConfig(nesterov=True), weight_decay=0.1),
    AdamConfig(amsgrad=True, weight_decay=0.1),
    AdamWConfig(),
    AdamWConfig(moment_1="blockwise8", moment_2="blockwise8"),
    LionConfig(moment="bfloat16"),
]
SHAPES = [(3, 2), (4,), (80, 60)]


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def watch(self: SkippedSteps, runs: Sequence[ParamBatch]) -> None:
        self.on = {run.device: torch.zeros(1, dtype=torch.float64) for run in runs}

    monkeypatch.setattr(SkippedSteps, "watch", watch)
    monkeypatch.setattr(adaptor, "can_skip_on_device", lambda runs: all(None not in it.states for it in runs))


def model_of() -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    return nn.ParameterList([torch.randn(shape, generator=generator) for shape in SHAPES])


def step(model: nn.Module, optimizer: OptimizerAdaptor, seed: int, bad: float | None = None, **options: Any) -> None:
    generator = torch.Generator().manual_seed(seed)
    grads = GradientsParams()
    for param in params(model):
        grads.register(param, torch.randn(param.tensor.shape, generator=generator))
    if bad is not None:
        grads.values[1][2] = bad
    optimizer.step(0.1, model, grads, **options)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda it: type(it).__name__)
def test_skipped_steps_leave_everything_as_if_they_had_not_been(config: ModuleOptimizerConfig, on_device: None) -> None:
    config = config.replace(skip_non_finite=True)
    model, optimizer = model_of(), config.init()
    expected, other = model_of(), config.init()
    for seed in range(9):
        bad = {0: float("nan"), 3: float("inf"), 4: float("-inf"), 8: float("nan")}.get(seed)
        step(model, optimizer, seed, bad)
        if bad is None:
            step(expected, other, seed)
    assert_same(dict(model.named_parameters()), dict(expected.named_parameters()))
    assert optimizer.skipped_steps == 4
    record = optimizer.to_record()
    states: dict[str, Tensor] = {name.partition(".")[2]: it for name, it in record.tensors.items()}
    assert_same(states, {name.partition(".")[2]: it for name, it in other.to_record().tensors.items()})
    times = [it for name, it in record.values["states"].items() if name.endswith(".time")]
    assert set(times) <= {5}


def test_what_a_gradient_scaler_found_skips_a_step(on_device: None) -> None:
    model, optimizer = model_of(), AdamWConfig().init()
    step(model, optimizer, 0)
    before = [param.detach().clone() for param in model.parameters()]
    step(model, optimizer, 1, found_inf=torch.ones(1))
    assert all(map(torch.equal, before, model.parameters()))
    step(model, optimizer, 1, found_inf=torch.zeros(1))
    assert not any(map(torch.equal, before, model.parameters()))
    assert optimizer.skipped_steps == 1


def test_a_velocity_that_a_skipped_step_would_have_begun_begins_later(on_device: None) -> None:
    plain = SgdConfig().init()
    model = model_of()
    step(model, plain, 0)
    optimizer = SgdConfig(momentum=MomentumConfig(dampening=0.5), skip_non_finite=True).init()
    optimizer.load_record(plain.to_record(), model)
    before = [param.detach().clone() for param in model.parameters()]
    step(model, optimizer, 1, bad=float("nan"))
    assert not optimizer.to_record().tensors
    step(model, optimizer, 2)
    generator = torch.Generator().manual_seed(2)
    for param, start in zip(model.parameters(), before, strict=True):
        grad = torch.randn(param.shape, generator=generator)
        torch.testing.assert_close(param.detach(), start - 0.1 * grad)
