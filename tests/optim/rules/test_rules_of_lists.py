"""The rules that are written over lists: a thousand steps in float64, other precisions, records, and bad configs.

Burn's own steps, before and after loading its records, are in tests/golden and tests/vectors.
"""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import burnlike as bl
from burnlike import nn
from burnlike.errors import RecordMismatchError
from burnlike.module import params
from burnlike.optim import (
    AdafactorConfig,
    AdaGradConfig,
    AdanConfig,
    GradientsParams,
    LambConfig,
    LionConfig,
    ModuleOptimizerConfig,
    OptimizerAdaptor,
    RmsPropConfig,
    ScheduleFreeAdamWConfig,
)
from burnlike.record import BurnpackRecorder, SafetensorsRecorder
from tests.optim.rules.formulas import PlainAdafactor, PlainAdan, PlainLamb, PlainScheduleFreeAdamW
from tests.optim.steps import assert_same, train
from tests.optim.test_as_in_torch import check

EACH = {
    "AdaGrad": AdaGradConfig(lr_decay=0.1, weight_decay=0.01),
    "RmsProp": RmsPropConfig(weight_decay=0.01),
    "RmsProp, centered": RmsPropConfig(centered=True),
    "RmsProp without momentum": RmsPropConfig(momentum=0.0),
    "Adan": AdanConfig(weight_decay=0.1),
    "Lamb": LambConfig(weight_decay=0.1),
    "Adafactor": AdafactorConfig(weight_decay=0.1),
    "ScheduleFreeAdamW": ScheduleFreeAdamWConfig(weight_decay=0.1, warmup_steps=3),
}
each = pytest.mark.parametrize("config", EACH.values(), ids=EACH)


@pytest.mark.parametrize("options", [{}, {"lr_decay": 0.01, "weight_decay": 0.03, "maximize": True}])
def test_adagrad_is_torchs(options: dict[str, Any]) -> None:
    check(AdaGradConfig(epsilon=1e-8, **options), torch.optim.Adagrad, eps=1e-8, **options)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.9, 0.03)])
def test_rmsprop_is_torchs(centered: bool, momentum: float, weight_decay: float) -> None:
    options = {"centered": centered, "momentum": momentum, "weight_decay": weight_decay}
    check(RmsPropConfig(epsilon=1e-7, **options), torch.optim.RMSprop, eps=1e-7, **options)


@pytest.mark.parametrize("weight_decay", [0.0, 0.03])
def test_adafactor_is_torchs(weight_decay: float) -> None:
    config = AdafactorConfig(epsilon_1=1e-60, clip_threshold=1.0, weight_decay=weight_decay)
    check(config, torch.optim.Adafactor, eps=(1e-30, 1e-3), weight_decay=weight_decay)


PLAIN: list[tuple[type[ModuleOptimizerConfig], Any, dict[str, Any]]] = [
    (AdanConfig, PlainAdan, {}),
    (AdanConfig, PlainAdan, {"beta_1": 0.9, "epsilon": 1e-3, "weight_decay": 0.1}),
    (AdanConfig, PlainAdan, {"beta_3": 0.9, "weight_decay": 0.1, "no_prox": True}),
    (LambConfig, PlainLamb, {}),
    (LambConfig, PlainLamb, {"beta_1": 0.8, "weight_decay": 0.1}),
    (LambConfig, PlainLamb, {"weight_decay": 0.1, "use_trust_ratio": False}),
    (AdafactorConfig, PlainAdafactor, {"weight_decay": 0.1, "clip_threshold": 0.5}),
    (AdafactorConfig, PlainAdafactor, {"relative_step": False, "epsilon_1": 1e-3, "decay_rate": -0.5}),
    (AdafactorConfig, PlainAdafactor, {"scale_parameter": False, "clip_threshold": 2.0}),
    (ScheduleFreeAdamWConfig, PlainScheduleFreeAdamW, {}),
    (ScheduleFreeAdamWConfig, PlainScheduleFreeAdamW, {"beta_1": 0.95, "weight_decay": 0.1, "warmup_steps": 50}),
    (ScheduleFreeAdamWConfig, PlainScheduleFreeAdamW, {"r": 0.75, "weight_lr_power": 0.0, "epsilon": 1e-3}),
]


@pytest.mark.parametrize(("config", "plain", "options"), PLAIN, ids=lambda it: getattr(it, "__name__", str(it)))
def test_a_rule_is_its_formula(config: type[ModuleOptimizerConfig], plain: type[Any], options: dict[str, Any]) -> None:
    check(config(**options), plain, **options)


def filled(dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.nn.Module:
    """Parameters of several ranks; the first has many values."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(16, 8), (5,), (2, 3, 4), (), (3, 0)]
    return torch.nn.ParameterList([torch.randn(it, generator=generator).to(dtype) for it in shapes])


@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_parameters_are_updated_in_float32_and_rounded_once(
    config: ModuleOptimizerConfig, dtype: torch.dtype
) -> None:
    half, wide = filled(dtype), filled(dtype).float()
    optimizer, reference = config.init(), config.init()
    for seed in range(3):
        for one, other in zip(half.parameters(), wide.parameters(), strict=True):
            other.data = one.detach().float()  # each step starts from the rounded weights
            one.grad = torch.randn(one.shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
            other.grad = one.grad.float()
        optimizer.step(0.01, half, GradientsParams.from_module(half))
        reference.step(0.01, wide, GradientsParams.from_module(wide))
        for one, other in zip(half.parameters(), wide.parameters(), strict=True):
            assert torch.equal(one, other.to(dtype))
    states = optimizer.to_record().tensors
    assert {state.dtype for state in states.values()} == {torch.float32}


@each
@pytest.mark.parametrize("recorder", [BurnpackRecorder(), SafetensorsRecorder()], ids=lambda it: type(it).__name__)
def test_a_loaded_state_goes_on_in_the_same_bits(config: ModuleOptimizerConfig, recorder: Any, tmp_path: Path) -> None:
    one = filled()
    optimizer = config.init()
    for _ in range(3):
        train(one, optimizer)
    other = copy.deepcopy(one)
    path = recorder.save(optimizer.to_record(), tmp_path / "optimizer")
    again = config.init().load_record(recorder.load(path), other)
    train(one, optimizer)
    train(other, again)
    assert_same(dict(one.named_parameters()), dict(other.named_parameters()))
    assert_same(again.to_record().tensors, optimizer.to_record().tensors)


@each
def test_parameters_count_their_own_steps(config: ModuleOptimizerConfig) -> None:
    together, alone = filled(), filled()
    optimizer = config.init()
    late, apart = params(together)[1], params(alone)[1]
    for step in range(4):
        train_some(
            together, optimizer, [param for param in params(together) if step >= 2 or param.path != late.path], step
        )
    fresh = config.init()
    for step in (2, 3):
        train_some(alone, fresh, [apart], step)
    assert torch.equal(late.tensor, apart.tensor)


def train_some(model: torch.nn.Module, optimizer: OptimizerAdaptor, some: list[Any], seed: int) -> None:
    grads = GradientsParams()
    for param in some:
        shape = param.tensor.shape
        grads.register(param, torch.randn(shape, generator=torch.Generator().manual_seed(seed)))
    optimizer.step(0.01, model, grads)


@each
def test_gradients_and_arguments_of_the_bare_formula_are_left_alone(config: ModuleOptimizerConfig) -> None:
    rule = config.build()
    tensor, grad = bl.Tensor(torch.randn(3, 4)), bl.Tensor(torch.randn(3, 4))
    kept = tensor.inner.clone(), grad.inner.clone()
    first, state = rule.step(0.1, tensor, grad, None)
    second, _ = rule.step(0.1, first, grad, state)
    repeated, _ = rule.step(0.1, first, grad, state)
    assert torch.equal(tensor.inner, kept[0])
    assert torch.equal(grad.inner, kept[1])
    assert torch.equal(second.inner, repeated.inner)
    assert not torch.equal(second.inner, first.inner)


def test_centered_rmsprop_stands_a_gradient_that_stays_the_same() -> None:
    model = nn.LinearConfig(d_input=64, d_output=64, bias=False).init()
    optimizer = RmsPropConfig(centered=True, alpha=0.5, momentum=0.0).init()
    (param,) = params(model)
    grad = torch.rand(64, 64) + 0.1
    for _ in range(100):  # the variance of which is 0 up to rounding, on either side
        grads = GradientsParams()
        grads.register(param, grad)
        optimizer.step(1e-9, model, grads)
    assert model.weight.isfinite().all()


def test_rmsprop_may_change_its_options_between_runs() -> None:
    model = filled()
    plain, full = RmsPropConfig(momentum=0.0), RmsPropConfig(momentum=0.5, centered=True)
    optimizer = plain.init()
    train(model, optimizer)
    fuller = full.init().load_record(optimizer.to_record(), model)
    train(model, fuller)
    assert {name.partition(".")[2] for name in fuller.to_record().tensors} == {
        *("square_avg.square_avg", "centered.grad_avg", "centered.avg", "momentum.buf")
    }
    back = plain.init().load_record(fuller.to_record(), model)
    train(model, back)
    assert {name.partition(".")[2] for name in back.to_record().tensors} == {"square_avg.square_avg", "centered.avg"}


def test_lamb_leaves_what_is_zero_to_its_plain_update() -> None:
    model = nn.LinearConfig(d_input=3, d_output=3, bias=False).init()
    (param,) = params(model)
    param.tensor.data.zero_()
    grads = GradientsParams()
    grads.register(param, torch.ones(3, 3))
    LambConfig().init().step(0.5, model, grads)
    torch.testing.assert_close(model.weight.detach(), torch.full((3, 3), -0.5), rtol=1e-5, atol=0)  # the ratio is 1


@pytest.mark.parametrize("config", [LambConfig(), AdafactorConfig()], ids=["Lamb", "Adafactor"])
def test_norms_of_large_tensors_keep_their_digits(config: ModuleOptimizerConfig) -> None:
    values = torch.randn(1024, 2048, generator=torch.Generator().manual_seed(0)) + 3
    grad = torch.linspace(-1, 1, values.numel()).view(values.shape)
    steps = []
    for dtype in (torch.float32, torch.float64):
        model = torch.nn.ParameterList([values.to(dtype, copy=True)])
        model[0].grad = grad.to(dtype)
        config.init().step(0.1, model, GradientsParams.from_module(model))
        steps.append((model[0].detach() - values.to(dtype)).double().norm())
    torch.testing.assert_close(steps[0], steps[1], rtol=4e-7, atol=0)


def test_adafactor_keeps_rows_and_columns_and_checks_their_shapes() -> None:
    model = filled()
    optimizer = AdafactorConfig().init()
    train(model, optimizer)
    record = optimizer.to_record()
    big = next(param for param in params(model) if param.tensor.dim() == 3)
    assert record.tensors[f"{big.id}.second_moment"].shape == (2, 3, 1)
    assert record.tensors[f"{big.id}.column_second_moment"].shape == (2, 1, 4)
    record.tensors[f"{big.id}.second_moment"] = torch.zeros(2, 1, 4)
    with pytest.raises(RecordMismatchError, match=r"second_moment.*expected \[2, 3, 1\], got \[2, 1, 4\]"):
        AdafactorConfig().init().load_record(record, model)


@each
def test_a_record_of_another_rule_is_refused_by_what_it_lacks(config: ModuleOptimizerConfig) -> None:
    model = filled()
    other = LionConfig().init()
    train(model, other)
    optimizer = config.init()
    train(model, optimizer)
    before = copy.deepcopy(optimizer.to_record().tensors)
    with pytest.raises(RecordMismatchError, match=f"is none of {type(config.build()).__name__}: '.*' of .* is missing"):
        optimizer.load_record(other.to_record(), model)
    assert_same(optimizer.to_record().tensors, before)
