"""Gradients: taking, registering, moving, sums of several devices, accumulation, and clipping."""

from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import ArgumentError, DeviceError, DTypeError, ModuleTreeError, ShapeError
from burnlike.module import ParamId, params
from burnlike.optim import (
    AdamWConfig,
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    GradientsAccumulator,
    GradientsParams,
    MultiGradientsParams,
    clip,
)


def model_of(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3, dtype=dtype), nn.Linear(3, 1, dtype=dtype))


def backward(model: nn.Sequential) -> list[torch.Tensor]:
    model(torch.ones(4, 2)).sum().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def test_iterating_gives_each_parameter_with_its_gradient() -> None:
    model = model_of()
    expected = backward(model)
    grads = GradientsParams.from_module(model)
    assert [param.path for param, _ in grads] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert all(grad is want for (_, grad), want in zip(grads, expected, strict=True))
    assert len(grads) == 4
    assert not grads.is_empty()
    assert GradientsParams().is_empty()


def test_the_gradients_of_some_parameters_are_taken_and_the_others_stay() -> None:
    model = model_of()
    expected = backward(model)
    weight, bias, *_ = params(model)
    grads = GradientsParams.from_params(model, [bias.id, str(weight.id), ParamId(77)])
    assert [param.path for param, _ in grads] == ["0.weight", "0.bias"]
    assert grads.get(bias.id) is expected[1]
    assert model[0].weight.grad is None
    assert model[1].weight.grad is expected[2]
    assert GradientsParams.from_params(model, [weight.id]).is_empty(), "it is taken already"
    with pytest.raises(ValueError, match="weight"):
        GradientsParams.from_params(model, ["0.weight"])


def test_the_gradients_of_some_parameters_are_taken_out_of_a_typed_backward_pass() -> None:
    model = model_of()
    found = model(bl.Tensor(torch.ones(4, 2), bl.Autodiff(bl.Cpu()))).sum().backward()
    weight, *others = params(model)
    grads = GradientsParams.from_params(model, [weight.id], grads=found)
    assert [param.path for param, _ in grads] == ["0.weight"]
    assert len(GradientsParams.from_grads(found, model)) == len(others)


def test_registering_replaces_and_removing_takes_out() -> None:
    model = model_of()
    backward(model)
    grads = GradientsParams.from_module(model)
    weight, bias, *_ = params(model)
    other = torch.zeros(3, 2)
    grads.register(weight, other)
    assert grads.get(weight) is other
    assert len(grads) == 4
    assert grads.remove(weight.id) is other
    assert weight not in grads
    assert bias in grads
    assert [param.path for param in grads.params] == ["0.bias", "1.weight", "1.bias"]
    assert len(grads.values) == 3


@pytest.mark.parametrize(
    ("grad", "error", "message"),
    [
        (torch.ones(2, 3), ShapeError, r"the gradient of '0\.weight' has shape \[2, 3\], expected \[3, 2\]"),
        (torch.ones(3, 2).half(), DTypeError, r"has dtype torch\.float16, expected torch\.float32"),
        (torch.ones(3, 2, device="meta"), DeviceError, "is on 'meta', expected 'cpu'"),
    ],
)
def test_a_gradient_that_does_not_fit_is_refused(grad: torch.Tensor, error: type[Exception], message: str) -> None:
    grads = GradientsParams()
    with pytest.raises(error, match=message):
        grads.register(params(model_of())[0], grad)
    assert grads.is_empty()


def test_gradients_move_with_their_module_and_others_stay() -> None:
    model, other = model_of(), model_of()
    backward(model)
    grads = GradientsParams.from_module(model)
    foreign = params(other)[0]
    grads.register(foreign, torch.ones(3, 2))
    assert grads.to_device("meta", model) is grads
    assert [grad.device.type for _, grad in grads] == ["meta"] * 4 + ["cpu"]


def test_thousands_of_gradients_are_looked_up_and_removed_quickly() -> None:
    model = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(5000)])
    grads = GradientsParams()
    every = params(model)
    for param in every:  # a list that is searched each time would take minutes here
        grads.register(param, torch.ones(1))
    assert all(grads.remove(param) is not None for param in every)
    assert grads.is_empty()


def replicas(model: nn.Sequential, count: int) -> tuple[MultiGradientsParams, list[list[torch.Tensor]]]:
    multi, given = MultiGradientsParams(), []
    for _ in range(count):
        grads = GradientsParams()
        for param in params(model):
            grads.register(param, torch.randn(param.tensor.shape))
        given.append(grads.values)
        multi.add(grads)
    return multi, given


def test_gradients_of_several_devices_are_summed_for_a_step() -> None:
    model = model_of()
    multi, given = replicas(model, 3)
    weight = params(model)[0]
    multi.containers[1].remove(weight)
    summed = multi.summed(model)
    torch.testing.assert_close(summed.get(weight), given[0][0] + given[2][0])
    torch.testing.assert_close(summed.values[3], given[0][3] + given[1][3] + given[2][3])
    assert all(grads.is_empty() for grads in multi.containers)
    assert multi.remove(weight) is None
    assert MultiGradientsParams().remove(weight) is None


def test_the_sum_begins_at_the_container_that_the_id_says() -> None:
    model = model_of()
    multi, given = replicas(model, 3)
    weight, bias, *_ = params(model)
    start = weight.id.value % 3
    only = MultiGradientsParams()
    for grads in multi.containers:
        only.add(grads)
    for place in range(3):
        if place != start:
            only.containers[place].remove(weight)
    assert only.remove(weight) is given[start][0]
    assert only.remove(bias) is not None


def test_a_parameter_is_named_by_its_param_or_its_id() -> None:
    model = model_of()
    backward(model)
    grads = GradientsParams.from_module(model)
    weight = params(model)[0]
    assert grads.get(weight) is grads.get(weight.id) is not None
    wrong: Any = model[0].weight
    with pytest.raises(ModuleTreeError, match=r"expected a Param or a ParamId, .* got a Parameter"):
        grads.get(wrong)


SIZES = [5, 1, 8, 2]


def model_of_float64(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4, dtype=dtype), nn.Tanh(), nn.Linear(4, 1, dtype=dtype))


def gradients(model: nn.Module, batch: torch.Tensor) -> GradientsParams:
    model(batch).square().mean().backward()
    return GradientsParams.from_module(model)


def test_unequal_micro_batches_are_the_big_batch() -> None:
    model = model_of_float64()
    batches = [torch.randn(size, 3, dtype=torch.float64) for size in SIZES]
    accumulator = GradientsAccumulator()
    for batch in batches:
        accumulator.accumulate(model, gradients(model, batch), items=len(batch))
    assert len(accumulator) == 4
    found, expected = accumulator.grads(), gradients(model, torch.cat(batches))
    assert found.params == expected.params
    for ours, theirs in zip(found.values, expected.values, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-16)
    assert len(accumulator) == 0
    assert accumulator.grads().is_empty()


def test_without_items_it_is_burns_sum() -> None:
    model = model_of_float64()
    accumulator = GradientsAccumulator()
    given = [gradients(model, torch.randn(2, 3, dtype=torch.float64)) for _ in range(3)]
    kept = [[grad.clone() for grad in grads.values] for grads in given]
    for grads in given:
        accumulator.accumulate(model, grads)
    for ours, *theirs in zip(accumulator.grads().values, *kept, strict=True):
        assert torch.equal(ours, theirs[0] + theirs[1] + theirs[2])
    for grads, before in zip(given, kept, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(grads.values, before, strict=True)), "the gradients were changed"


def test_one_micro_batch_is_left_as_it_is() -> None:
    model = model_of_float64(torch.float32)
    grads = gradients(model, torch.randn(7, 3))
    accumulator = GradientsAccumulator()
    accumulator.accumulate(model, grads, items=7)
    assert all(torch.equal(a, b) for a, b in zip(accumulator.grads().values, grads.values, strict=True))


def test_a_parameter_that_some_micro_batches_do_not_use_counts_as_zero_there() -> None:
    model = nn.ModuleList([nn.Linear(1, 1, bias=False, dtype=torch.float64) for _ in range(2)])
    first, second = params(model)
    accumulator = GradientsAccumulator()
    for param, items in ((first, 3), (second, 1)):
        grads = GradientsParams()
        grads.register(param, torch.ones(1, 1, dtype=torch.float64))
        accumulator.accumulate(model, grads, items=items)
    found = accumulator.grads()
    assert [(param.path, grad.item()) for param, grad in found] == [("0.weight", 0.75), ("1.weight", 0.25)]


def test_half_gradients_are_summed_in_float32() -> None:
    model = nn.Linear(1, 1, bias=False, dtype=torch.float16)
    weight = params(model)[0]
    accumulator = GradientsAccumulator()
    for value in [2048.0] + [1.0] * 8:  # 2048 + 1 = 2048 in float16
        grads = GradientsParams()
        grads.register(weight, torch.full((1, 1), value, dtype=torch.float16))
        accumulator.accumulate(model, grads)
    (grad,) = accumulator.grads().values
    assert grad.dtype == torch.float16
    assert grad.item() == 2056.0


def test_a_micro_batch_of_no_items_adds_nothing() -> None:
    model = model_of_float64()
    batch = torch.randn(4, 3, dtype=torch.float64)
    accumulator = GradientsAccumulator()
    accumulator.accumulate(model, gradients(model, torch.empty(0, 3, dtype=torch.float64)), items=0)  # NaN
    accumulator.accumulate(model, gradients(model, batch), items=4)
    for ours, theirs in zip(accumulator.grads().values, gradients(model, batch).values, strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_of_other_modules_are_left_out() -> None:
    model, other = model_of_float64(), model_of_float64()
    grads = gradients(model, torch.ones(1, 3, dtype=torch.float64))
    accumulator = GradientsAccumulator()
    accumulator.accumulate(other, grads)
    assert accumulator.grads().is_empty()
    assert len(grads) == 4


@pytest.mark.parametrize("items", [-1, float("nan"), float("inf")])
def test_items_that_are_no_count_are_refused(items: float) -> None:
    model = model_of_float64()
    with pytest.raises(ArgumentError, match="items: expected how many items the loss is a mean of"):
        GradientsAccumulator().accumulate(model, GradientsParams(), items=items)


@pytest.mark.parametrize("first", [None, 2])
def test_items_for_some_micro_batches_only_are_refused(first: int | None) -> None:
    model = model_of_float64()
    accumulator = GradientsAccumulator()
    grads = gradients(model, torch.ones(2, 3, dtype=torch.float64))
    accumulator.accumulate(model, grads, first)
    with pytest.raises(ArgumentError, match="give them for all, or for none"):
        accumulator.accumulate(model, grads, 2 if first is None else None)
    assert all(torch.equal(a, b) for a, b in zip(accumulator.grads().values, grads.values, strict=True))


def test_a_gradient_that_does_not_fit_is_refused_and_nothing_is_added() -> None:
    model = model_of_float64()
    grads = gradients(model, torch.ones(2, 3, dtype=torch.float64))
    accumulator = GradientsAccumulator()
    accumulator.accumulate(model, grads)
    params(model)[3].assign(torch.zeros(5, dtype=torch.float64))
    with pytest.raises(
        ShapeError, match=r"the gradient of '2\.bias' has shape \[1\], expected \[5\]; it was not added"
    ):
        accumulator.accumulate(model, grads)
    assert len(accumulator) == 1
    assert torch.equal(accumulator.grads().values[0], grads.values[0])


def test_accumulated_steps_train_as_big_batches_do() -> None:
    model, twin = model_of_float64(), model_of_float64()
    twin.load_state_dict(model.state_dict())
    optimizer, reference = AdamWConfig().init(), AdamWConfig().init()
    accumulator = GradientsAccumulator()
    for _ in range(5):
        batches = [torch.randn(size, 3, dtype=torch.float64) for size in SIZES]
        for batch in batches:
            accumulator.accumulate(model, gradients(model, batch), items=len(batch))
        optimizer.step(0.1, model, accumulator.grads())
        reference.step(0.1, twin, gradients(twin, torch.cat(batches)))
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def grads() -> list[torch.Tensor]:
    return [torch.randn(4, 3), torch.randn(7) * 3, torch.zeros(2)]


def test_by_value() -> None:
    given = grads()
    kept = [grad.clone() for grad in given]
    clipped = clip(ClipByValue(threshold=0.5), given)
    for before, after in zip(given, clipped, strict=True):
        assert torch.equal(after, before.clamp(-0.5, 0.5))
    assert all(torch.equal(a, b) for a, b in zip(given, kept, strict=True))


def test_by_norm_of_each_tensor() -> None:
    given = grads()
    clipped = clip(ClipByNorm(threshold=1.0), given)
    for before, after in zip(given, clipped, strict=True):
        norm = before.double().norm()
        torch.testing.assert_close(after.double(), before.double() * min(1.0, 1.0 / max(norm.item(), 1e-30)))


def test_by_global_norm_is_torchs() -> None:
    given = grads()
    leaves = [torch.nn.Parameter(torch.zeros_like(grad)) for grad in given]
    for leaf, grad in zip(leaves, given, strict=True):
        leaf.grad = grad.clone()
    torch.nn.utils.clip_grad_norm_(leaves, 0.7)
    for leaf, after in zip(leaves, clip(ClipByGlobalNorm(threshold=0.7), given), strict=True):
        torch.testing.assert_close(after, leaf.grad)
    assert clip(ClipByGlobalNorm(threshold=0.7), []) == []


@pytest.mark.parametrize(
    "rule", [ClipByNorm(threshold=1e6), ClipByGlobalNorm(threshold=1e6), ClipByValue(threshold=1e6)]
)
def test_below_the_threshold_no_bit_changes(rule: ClipByNorm) -> None:
    given = grads()
    assert all(torch.equal(a, b) for a, b in zip(clip(rule, given), given, strict=True))


def test_half_gradients_take_their_norm_in_float32() -> None:
    # burn 0.22.1: f16 [300, 400] clipped to norm 1 gives [0.6001, 0.7998]; the squares overflow float16.
    (clipped,) = clip(ClipByNorm(threshold=1.0), [torch.tensor([300.0, 400.0], dtype=torch.float16)])
    assert clipped.dtype == torch.float16
    torch.testing.assert_close(clipped, torch.tensor([0.6001, 0.7998], dtype=torch.float16))
