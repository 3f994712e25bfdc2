"""Clipping in steps, against torch, and steps that kernels skip, decided on the device."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ConfigError
from burnlike.interop import TorchOptimizer
from burnlike.module import ParamGroup, params
from burnlike.optim import (
    AdamConfig,
    AdamWConfig,
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    GradientClipping,
    GradientsParams,
    LionConfig,
    ModuleOptimizerConfig,
    MomentumConfig,
    OptimizerAdaptor,
    OptimizerGroup,
    SgdConfig,
)
from burnlike.optim.step import adaptor
from burnlike.optim.step.batches import ParamBatch, SkippedSteps
from tests.optim.steps import assert_same

from .group_steps import BIAS, LAST, LR, close, gradients, group, model_of, stepped, taken


def clipped_by_torch(grads: dict[str, torch.Tensor], clipping: GradientClipping | None) -> dict[str, torch.Tensor]:
    """As `torch.nn.utils` clips the gradients of parameters, in float64."""
    leaves = {path: nn.Parameter(torch.zeros_like(grad, dtype=torch.float64)) for path, grad in grads.items()}
    for path, leaf in leaves.items():
        leaf.grad = grads[path].double().clone()
    match clipping:
        case ClipByValue(threshold=threshold):
            nn.utils.clip_grad_value_(leaves.values(), threshold)
        case ClipByNorm(threshold=threshold):
            for leaf in leaves.values():
                nn.utils.clip_grad_norm_(leaf, threshold)
        case ClipByGlobalNorm(threshold=threshold):
            nn.utils.clip_grad_norm_(leaves.values(), threshold)
        case _:
            pass
    return {path: leaf.grad for path, leaf in leaves.items() if leaf.grad is not None}


CLIPPINGS = [ClipByValue(threshold=0.3), ClipByNorm(threshold=0.7), ClipByGlobalNorm(threshold=0.9)]


@pytest.mark.parametrize("clipping", CLIPPINGS, ids=lambda it: type(it).__name__)
def test_clipping_is_torchs(clipping: GradientClipping) -> None:
    found = stepped(SgdConfig(grad_clipping=clipping))
    # torch adds 1e-6 to the norm, Burn the smallest normal number.
    for path, grad in clipped_by_torch(gradients(model_of()), clipping).items():
        torch.testing.assert_close(found[path], -LR * grad, rtol=3e-6, atol=1e-15)


@pytest.mark.parametrize("clipping", CLIPPINGS, ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_clipping_of_half_gradients_is_computed_wide(clipping: GradientClipping, dtype: torch.dtype) -> None:
    model = model_of().to(dtype)
    for param in params(model):
        param.tensor.data.zero_()
    grads = gradients(model)
    SgdConfig(grad_clipping=clipping).init().step(1.0, model, taken(model, grads))
    for param in params(model):
        expected = -clipped_by_torch(grads, clipping)[param.path]
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(param.tensor.detach().double(), expected, rtol=eps, atol=eps * 1e-2)


@pytest.mark.parametrize("clipping", CLIPPINGS[1:], ids=lambda it: type(it).__name__)
def test_clipping_takes_weights_in_channels_last_as_they_lie(clipping: GradientClipping) -> None:
    """A program of its own: convolutions on a CPU, with torch's interface; the same step, and nothing is copied."""
    torch.manual_seed(0)
    plain = nn.Conv2d(4, 6, 3)
    last = deepcopy(plain).to(memory_format=torch.channels_last)
    optimizers = [TorchOptimizer(model, AdamConfig(grad_clipping=clipping), lr=0.1) for model in (plain, last)]
    for _ in range(3):
        grads = [torch.randn_like(parameter) for parameter in plain.parameters()]
        for model, optimizer in zip((plain, last), optimizers, strict=True):
            for parameter, grad in zip(model.parameters(), grads, strict=True):
                parameter.grad = torch.empty_like(parameter).copy_(grad)
            with torch.profiler.profile() as profile:
                optimizer.step()
            assert not {"aten::clone", "aten::contiguous"} & {it.key for it in profile.key_averages()}
    assert last.weight.grad is not None
    assert last.weight.grad.stride() == last.weight.stride() != plain.weight.stride()
    for one, other in zip(plain.parameters(), last.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_a_global_norm_is_of_the_base_and_of_groups_without_clipping_of_their_own() -> None:
    clipping = ClipByGlobalNorm(threshold=0.9)
    own = SgdConfig(grad_clipping=ClipByValue(threshold=0.2))
    found = stepped(SgdConfig(grad_clipping=clipping, groups=(group(BIAS, lr_factor=2.0), group(LAST, optimizer=own))))
    grads = gradients(model_of())
    shared = clipped_by_torch({path: grads[path] for path in ("0.weight", "0.bias")}, clipping)
    torch.testing.assert_close(found["0.weight"], -LR * shared["0.weight"], rtol=3e-6, atol=0)
    torch.testing.assert_close(found["0.bias"], -2 * LR * shared["0.bias"], rtol=3e-6, atol=0)
    for path in ("1.weight", "1.bias"):
        close(found[path], -LR * grads[path].clamp(-0.2, 0.2))


@pytest.mark.parametrize("clipping", [None, *CLIPPINGS], ids=lambda it: type(it).__name__)
def test_a_loss_scale_is_taken_out_before_clipping(clipping: GradientClipping | None) -> None:
    config = SgdConfig(grad_clipping=clipping, groups=(group(BIAS, lr_factor=2.0),))
    expected = stepped(config)
    for scale in (1024.0, torch.tensor(1024.0)):
        model = model_of()
        scaled = {path: grad * 1024.0 for path, grad in gradients(model).items()}
        before = {param.path: param.tensor.detach().clone() for param in params(model)}
        config.init().step(LR, model, taken(model, scaled), loss_scale=scale)
        for param in params(model):
            close(param.tensor.detach() - before[param.path], expected[param.path])


def norms_taken(rules: OptimizerAdaptor[Any]) -> list[list[str]]:
    """The parameters of each norm of 1.0 that the gradients of a step are clipped to, found from the step alone."""
    model = model_of()
    grads = {path: grad * 100 for path, grad in gradients(model).items()}
    before = {param.path: param.tensor.detach().clone() for param in params(model)}
    rules.step(1.0, model, taken(model, grads))
    after = {param.path: param.tensor.detach() for param in params(model)}
    found: dict[float, list[str]] = {}
    for path, grad in grads.items():
        factor = ((before[path] - after[path]).norm() / grad.norm()).item()
        found.setdefault(round(1 / factor, 6), []).append(path)
    for norm, paths in found.items():
        assert norm == pytest.approx(torch.cat([grads[path].flatten() for path in paths]).norm().item(), rel=1e-6)
    return sorted(found.values())


HALVES = [["0.bias", "0.weight"], ["1.bias", "1.weight"]]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", [None, "all"])
def test_whether_norms_are_one_is_told_by_the_name_and_not_by_the_object(shared: bool, name: str | None) -> None:
    first = ClipByGlobalNorm(threshold=1.0, group=name)
    second = first if shared else ClipByGlobalNorm(threshold=1.0, group=name)
    rule = SgdConfig().build()
    made = OptimizerAdaptor(rule, first, [OptimizerGroup(LAST, SgdConfig().build(), second)])
    added = OptimizerAdaptor(rule, first).with_group(LAST, SgdConfig().build(), second)
    without_base = OptimizerAdaptor(
        None, None, [OptimizerGroup(ParamGroup.all(), rule, first), OptimizerGroup(LAST, SgdConfig().build(), second)]
    )
    config = SgdConfig(grad_clipping=first, groups=(group(LAST, optimizer=SgdConfig(grad_clipping=second)),))
    expected = HALVES if name is None else [sorted([*HALVES[0], *HALVES[1]])]
    for rules in (made, added, without_base, config.init(), SgdConfig.from_yaml(config.to_yaml()).init()):
        assert [sorted(paths) for paths in norms_taken(rules)] == expected


def test_parts_of_one_norm_may_have_thresholds_of_their_own() -> None:
    base = ClipByGlobalNorm(threshold=0.5, group="all")
    own = SgdConfig(grad_clipping=ClipByGlobalNorm(threshold=0.1, group="all"))
    found = stepped(SgdConfig(grad_clipping=base, groups=(group(LAST, optimizer=own),)))
    grads = gradients(model_of())
    norm = torch.cat([grad.flatten() for grad in grads.values()]).norm()
    for path, threshold in {"0.weight": 0.5, "0.bias": 0.5, "1.weight": 0.1, "1.bias": 0.1}.items():
        close(found[path], -LR * grads[path] * threshold / norm)


def test_a_norm_needs_a_name_that_can_be_read() -> None:
    with pytest.raises(ConfigError, match="group"):
        ClipByGlobalNorm(threshold=1.0, group="")


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


def parameters_of() -> nn.Module:
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
    model, optimizer = parameters_of(), config.init()
    expected, other = parameters_of(), config.init()
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
    model, optimizer = parameters_of(), AdamWConfig().init()
    step(model, optimizer, 0)
    before = [param.detach().clone() for param in model.parameters()]
    step(model, optimizer, 1, found_inf=torch.ones(1))
    assert all(map(torch.equal, before, model.parameters()))
    step(model, optimizer, 1, found_inf=torch.zeros(1))
    assert not any(map(torch.equal, before, model.parameters()))
    assert optimizer.skipped_steps == 1


def test_a_velocity_that_a_skipped_step_would_have_begun_begins_later(on_device: None) -> None:
    plain = SgdConfig().init()
    model = parameters_of()
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
