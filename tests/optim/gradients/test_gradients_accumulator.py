"""Accumulation: a sum as Burn's, or with items the gradient of one big batch."""

import pytest
import torch
from torch import nn

from burnlike.errors import ArgumentError, ShapeError
from burnlike.module import params
from burnlike.optim import AdamWConfig, GradientsAccumulator, GradientsParams

SIZES = [5, 1, 8, 2]


def model_of(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4, dtype=dtype), nn.Tanh(), nn.Linear(4, 1, dtype=dtype))


def gradients(model: nn.Module, batch: torch.Tensor) -> GradientsParams:
    model(batch).square().mean().backward()
    return GradientsParams.from_module(model)


def test_unequal_micro_batches_are_the_big_batch() -> None:
    model = model_of()
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
    model = model_of()
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
    model = model_of(torch.float32)
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
    model = model_of()
    batch = torch.randn(4, 3, dtype=torch.float64)
    accumulator = GradientsAccumulator()
    accumulator.accumulate(model, gradients(model, torch.empty(0, 3, dtype=torch.float64)), items=0)  # NaN
    accumulator.accumulate(model, gradients(model, batch), items=4)
    for ours, theirs in zip(accumulator.grads().values, gradients(model, batch).values, strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_of_other_modules_are_left_out() -> None:
    model, other = model_of(), model_of()
    grads = gradients(model, torch.ones(1, 3, dtype=torch.float64))
    accumulator = GradientsAccumulator()
    accumulator.accumulate(other, grads)
    assert accumulator.grads().is_empty()
    assert len(grads) == 4


@pytest.mark.parametrize("items", [-1, float("nan"), float("inf")])
def test_items_that_are_no_count_are_refused(items: float) -> None:
    model = model_of()
    with pytest.raises(ArgumentError, match="items: expected how many items the loss is a mean of"):
        GradientsAccumulator().accumulate(model, GradientsParams(), items=items)


@pytest.mark.parametrize("first", [None, 2])
def test_items_for_some_micro_batches_only_are_refused(first: int | None) -> None:
    model = model_of()
    accumulator = GradientsAccumulator()
    grads = gradients(model, torch.ones(2, 3, dtype=torch.float64))
    accumulator.accumulate(model, grads, first)
    with pytest.raises(ArgumentError, match="give them for all, or for none"):
        accumulator.accumulate(model, grads, 2 if first is None else None)
    assert all(torch.equal(a, b) for a, b in zip(accumulator.grads().values, grads.values, strict=True))


def test_a_gradient_that_does_not_fit_is_refused_and_nothing_is_added() -> None:
    model = model_of()
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
    model, twin = model_of(), model_of()
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
