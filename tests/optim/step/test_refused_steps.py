"""What a step refuses leaves module, states and counters as they were; what it takes, it takes from the right place."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ArgumentError, ConfigError, DeviceError, DTypeError, RecordMismatchError, ShapeError
from burnlike.module import ParamGroup, params
from burnlike.optim import (
    AdaGradConfig,
    AdamConfig,
    AdamWConfig,
    ClipByGlobalNorm,
    GradientsParams,
    LambConfig,
    LionConfig,
    ModuleLearningRate,
    ModuleOptimizerConfig,
    MomentumConfig,
    OptimizerGroupConfig,
    SgdConfig,
)
from burnlike.record import Record

KERNELS: list[ModuleOptimizerConfig] = [
    SgdConfig(momentum=MomentumConfig()),
    AdamConfig(amsgrad=True),
    AdamWConfig(),
    LionConfig(),
]


def model_of() -> nn.Sequential:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def gradients(model: nn.Module, seed: int) -> GradientsParams:
    generator = torch.Generator().manual_seed(seed)
    return GradientsParams.of(
        (param, torch.randn(param.tensor.shape, generator=generator).to(param.tensor.dtype)) for param in params(model)
    )


def values_of(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def assert_unchanged(model: nn.Module, before: list[Tensor]) -> None:
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("config", KERNELS, ids=lambda it: type(it).__name__)
@pytest.mark.parametrize(
    ("change", "error"),
    [(Tensor.double, DTypeError), (lambda grad: grad.to("meta"), DeviceError)],
    ids=["dtype", "device"],
)
def test_records_after_a_refused_step_are_those_of_a_training_without_it(
    config: ModuleOptimizerConfig, change: Callable[[Tensor], Tensor], error: type[Exception]
) -> None:
    models, optimizers = [model_of(), model_of()], [config.init(), config.init()]
    for seed in range(4):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.step(0.1, model, gradients(model, seed))
        wrong = gradients(models[0], 9)
        wrong.values[1] = change(wrong.values[1])
        with pytest.raises(error, match=r"the gradient of '0\.bias' .*; nothing was changed"):
            optimizers[0].step(0.1, models[0], wrong)
    records = [
        {param.path: optimizer.to_record().tensors for param in params(model)}
        for model, optimizer in zip(models, optimizers, strict=True)
    ]
    for one, other in zip(records[0].values(), records[1].values(), strict=True):
        assert [*one], "there are moments"
        for found, expected in zip(one.values(), other.values(), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("clipping", [None, ClipByGlobalNorm(threshold=1.0)])
def test_a_refused_step_has_drawn_nothing(clipping: ClipByGlobalNorm | None) -> None:
    model, optimizer = model_of(), AdamWConfig(grad_clipping=clipping, stochastic_rounding=True).init()
    wrong = gradients(model, 0)
    wrong.values[0] = wrong.values[0].to("meta")
    with pytest.raises(DeviceError, match=r"the gradient of '0\.weight' is on 'meta', expected 'cpu'"):
        optimizer.step(0.1, model, wrong)
    assert optimizer.random_step == 0
    optimizer.step(0.1, model, gradients(model, 0))
    assert optimizer.random_step == 1


@pytest.mark.parametrize("config", [*KERNELS, AdaGradConfig()], ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("rate", [-0.1, float("nan"), float("inf"), "0.1", None])
def test_a_rate_that_is_none_is_refused(config: ModuleOptimizerConfig, rate: Any) -> None:
    model, optimizer = model_of(), config.init()
    before = values_of(model)
    with pytest.raises(ArgumentError, match="expected a finite learning rate of at least 0, got"):
        optimizer.step(rate, model, gradients(model, 0))
    assert_unchanged(model, before)
    assert not optimizer.to_record().tensors


def test_a_wrong_rate_of_the_last_group_is_refused_before_the_first_is_stepped() -> None:
    model, optimizer = model_of(), SgdConfig().init()
    before = values_of(model)
    groups = (ParamGroup.from_predicate("1."),)
    with pytest.raises(ArgumentError, match="got nan"):
        optimizer.step(ModuleLearningRate(0.1, groups, (float("nan"),)), model, gradients(model, 0))
    assert_unchanged(model, before)
    with pytest.raises(ArgumentError, match="a rate for each of the 1 groups, got 2"):
        ModuleLearningRate(0.1, groups, (0.1, 0.2))


@pytest.mark.parametrize("factor", [-1.0, float("nan"), float("inf")])
def test_a_factor_of_rates_that_is_none_is_refused(factor: float) -> None:
    with pytest.raises(ConfigError, match="lr_factor: expected a finite number >= 0"):
        SgdConfig().init().with_group(ParamGroup.all(), SgdConfig().build(), lr_factor=factor)


def test_gradients_of_another_module_alone_are_refused_and_change_neither() -> None:
    model, other = model_of(), model_of()
    before, optimizer = values_of(other), SgdConfig().init()
    with pytest.raises(ArgumentError, match=r"none of the 4 gradients, such as that of '0\.weight', .* Sequential"):
        optimizer.step(0.1, model, gradients(other, 0))
    assert_unchanged(model, before)
    assert_unchanged(other, before)


def test_only_the_module_that_is_given_is_stepped() -> None:
    model, optimizer = model_of(), SgdConfig().init()
    before = values_of(model)
    grads = gradients(model, 0)
    optimizer.step(0.5, model[1], grads)
    assert_unchanged(model[0], before[:2])
    for parameter, then, grad in zip(model[1].parameters(), before[2:], grads.values[2:], strict=True):
        torch.testing.assert_close(parameter.detach(), then - 0.5 * grad)
    optimizer.step(0.5, model, grads)  # the same gradients, another module
    for parameter, then, grad in zip(model[0].parameters(), before[:2], grads.values[:2], strict=True):
        torch.testing.assert_close(parameter.detach(), then - 0.5 * grad)


def test_gradients_of_a_module_step_its_copy_of_the_same_ids() -> None:
    model, optimizer = model_of(), SgdConfig().init()
    grads = gradients(model, 0)
    copied, before = copy.deepcopy(model), values_of(model)
    for stepped in (model, copied):
        optimizer.step(0.5, stepped, grads)
        for parameter, then, grad in zip(stepped.parameters(), before, grads.values, strict=True):
            torch.testing.assert_close(parameter.detach(), then - 0.5 * grad)


def test_what_a_frozen_parameter_has_left_of_a_gradient_is_not_stepped() -> None:
    model, optimizer = model_of(), AdamWConfig(weight_decay=0.5).init()
    before = values_of(model)
    model(torch.ones(1, 3)).sum().backward()
    model[0].requires_grad_(False)
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    assert_unchanged(model[0], before[:2])
    assert not torch.equal(values_of(model)[2], before[2])
    assert all(parameter.grad is None for parameter in model.parameters()), "or it would be added to after unfreezing"


def test_copies_of_weights_follow_a_module_that_is_moved() -> None:
    model, copies = model_of(), model_of()
    optimizer = AdamWConfig().init().with_copies(model, copies)
    for dtype in (torch.bfloat16, torch.float16):
        copies.to(dtype)
        optimizer.step(0.1, model, gradients(model, 0))
        for weight, its_copy in zip(model.parameters(), copies.parameters(), strict=True):
            assert torch.equal(weight.to(dtype), its_copy)
    before = values_of(model)
    model.append(nn.Linear(2, 2, bias=False))
    with pytest.raises(ConfigError, match=r"'2\.weight' has no copy"):
        optimizer.step(0.1, model, gradients(model, 0))
    assert_unchanged(model[:2], before)


def test_one_clipping_object_in_two_places_clips_each_by_its_own_norm() -> None:
    clipping = ClipByGlobalNorm(threshold=1.0)
    group = OptimizerGroupConfig(params=ParamGroup.from_predicate("1."), optimizer=SgdConfig(grad_clipping=clipping))
    config = SgdConfig(grad_clipping=clipping, groups=(group,))
    model = model_of()
    before, grads = values_of(model), gradients(model, 0)
    for made in (config, SgdConfig.from_yaml(config.to_yaml())):
        stepped = copy.deepcopy(model)
        made.init().step(1.0, stepped, grads)
        for half in (slice(0, 2), slice(2, 4)):
            expected = [grad.clone() for grad in grads.values[half]]
            norm = torch.cat([grad.flatten() for grad in expected]).double().norm()
            assert norm > 1
            for parameter, then, grad in zip([*stepped.parameters()][half], before[half], expected, strict=True):
                torch.testing.assert_close(parameter.detach(), then - grad / norm.float())


def test_half_gradients_of_a_scaled_loss_are_unscaled_in_float32() -> None:
    """A gradient of 1e-6 * 1.1 has three bits as float16, but was handed over times 65536."""
    model, optimizer = nn.Linear(3, 1, bias=False).half(), AdaGradConfig().init()
    (param,) = params(model)
    scaled = torch.tensor([[1.1e-6, 3.3e-7, -7e-7]], dtype=torch.float64) * 65536
    optimizer.step(0.1, model, GradientsParams.of([(param, scaled.half())]), loss_scale=65536.0)
    expected = (scaled.half().double() / 65536).square()
    torch.testing.assert_close(optimizer.state_of(param).lr_decay.sum.double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("config", [AdamWConfig(), AdaGradConfig()], ids=lambda it: type(it).__name__)
def test_a_parameter_of_another_shape_than_its_state_is_refused_by_its_path(config: ModuleOptimizerConfig) -> None:
    model, optimizer = model_of(), config.init()
    optimizer.step(0.1, model, gradients(model, 0))
    model[1].weight = nn.Parameter(torch.ones(5, 4))
    before = values_of(model)
    with pytest.raises(ShapeError, match=r"'1\.weight' has shape \[5, 4\], and its state is of shape \[2, 4\]"):
        optimizer.step(0.1, model, gradients(model, 1))
    assert_unchanged(model, before)
    optimizer.set_state(params(model)[2], None)
    optimizer.step(0.1, model, gradients(model, 1))
    assert not torch.equal(values_of(model)[2], before[2])


@pytest.mark.parametrize("scale", [0.0, -2.0, float("nan"), float("inf")])
def test_a_loss_scale_that_is_none_is_refused(scale: float) -> None:
    model, optimizer = model_of(), AdamWConfig().init()
    before = values_of(model)
    with pytest.raises(ArgumentError, match="expected a finite loss_scale > 0"):
        optimizer.step(0.1, model, gradients(model, 0), loss_scale=scale)
    assert_unchanged(model, before)


def test_a_state_of_another_type_is_refused() -> None:
    model, optimizer = model_of(), AdamWConfig().init()
    other = LionConfig().init()
    other.step(0.1, model, gradients(model, 0))
    (param, *_) = params(model)
    with pytest.raises(TypeError, match=r"expected a AdamWState as the state of '0\.weight', got LionState"):
        optimizer.set_state(param, other.state_of(param))
    assert optimizer.state_of(param) is None


@pytest.mark.parametrize("count", [-5, 2**60, True, "x"])
def test_a_record_with_a_strange_count_of_steps_is_refused(count: Any) -> None:
    model, optimizer = model_of(), AdamWConfig(stochastic_rounding=True).init()
    optimizer.step(0.1, model, gradients(model, 0))
    record = optimizer.to_record()
    record = Record(record.tensors, {**record.values, "random_step": count})
    with pytest.raises(RecordMismatchError, match="expected random_step, a number of steps"):
        optimizer.load_record(record, model)
    assert optimizer.random_step == 1


@pytest.mark.parametrize(
    "config", [*KERNELS, LambConfig(), AdamWConfig(skip_non_finite=True)], ids=lambda it: type(it).__name__
)
def test_sparse_gradients_are_refused_before_anything_changes(config: ModuleOptimizerConfig) -> None:
    model, optimizer = nn.Sequential(nn.Linear(3, 3), nn.Embedding(5, 3, sparse=True)), config.init()
    before = values_of(model)
    model[0].weight.sum().backward()
    model[1](torch.tensor([1, 2])).sum().backward()
    with pytest.raises(DTypeError, match=r"the gradient of '1\.weight' is sparse .*; nothing was changed; leave out"):
        optimizer.step(0.1, model, GradientsParams.from_module(model))
    assert_unchanged(model, before)
    assert optimizer.to_record().tensors == {}


def test_complex_gradients_may_be_conjugated_lazily_but_parameters_not() -> None:
    torch.manual_seed(0)
    values, grad = torch.randn(3, dtype=torch.complex64), torch.randn(3, dtype=torch.complex64)
    steps = []
    for one in (grad.conj(), grad.conj().resolve_conj()):
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(values.clone())
        module.weight.grad = one
        AdamWConfig().init().step(0.1, module, GradientsParams.from_module(module))
        steps.append(module.weight.detach())
    assert torch.equal(*steps)
    module.weight = torch.nn.Parameter(values.conj())
    module.weight.grad = grad
    before = module.weight.detach().clone()
    with pytest.raises(DTypeError, match=r"'weight' is conjugated lazily.*nothing was changed"):
        AdamWConfig().init().step(0.1, module, GradientsParams.from_module(module))
    assert torch.equal(module.weight, before)
