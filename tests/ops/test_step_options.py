"""What a step does beside its formula, for each rule."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from burnlike.errors import ArgumentError
from burnlike.ops import StepOptions, force_cpu_isa, lion_step_, native_status, sgd_step_

from .steps import SHAPES, assert_same, clones, step, step_lists

RULES = ("adamw", "sgd", "lion")
MOMENTS = (None, torch.float32, torch.bfloat16, "8bit")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def number(value: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor([value], dtype=dtype)


def copies_like(shapes: tuple[tuple[int, ...], ...] = SHAPES) -> list[Tensor]:
    dtypes = (torch.bfloat16, torch.float32, torch.float16)
    return [torch.full(shape, 9.0, dtype=dtypes[index % 3]) for index, shape in enumerate(shapes)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scale_factors_and_clipping_equal_prepared_gradients(rule: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours = step_lists(rule, dtype)
    prepared = clones(ours)
    factors = 2.0 ** torch.arange(-2, 4, dtype=torch.float64)
    # Powers of 2 and a threshold that each dtype holds: nothing is rounded in preparing.
    prepared["grads"] = [
        (grad * (0.5 * factor)).clamp(-0.75, 0.75) for grad, factor in zip(ours["grads"], factors.tolist(), strict=True)
    ]
    step(rule, ours, StepOptions(grad_scale=0.5, factors=factors, clip_value=0.75))
    step(rule, prepared)
    del ours["grads"], prepared["grads"]
    assert_same(ours, prepared)


@pytest.mark.parametrize("rule", RULES)
def test_one_factor_is_for_all_and_one_of_1_changes_no_bits(rule: str) -> None:
    lists = step_lists(rule)
    plain, by_one, by_two, by_scale = (clones(lists) for _ in range(4))
    step(rule, plain)
    step(rule, by_one, StepOptions(factors=number(1.0)))
    assert_same(by_one, plain)
    step(rule, by_two, StepOptions(factors=number(2.0)))
    step(rule, by_scale, StepOptions(grad_scale=2.0))
    assert_same(by_two, by_scale)


def test_clipping_keeps_nan_and_cuts_infinity() -> None:
    param = torch.zeros(4)
    grad = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.5])
    sgd_step_([param], [grad], times=[1], lr=1.0, options=StepOptions(clip_value=2.0))
    assert math.isnan(param[0].item())
    assert param[1:].tolist() == [-2.0, 2.0, -0.5]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("moments", MOMENTS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_skipped_step_leaves_all_bits_and_zeroes_gradients(
    rule: str, moments: torch.dtype | str | None, dtype: torch.dtype
) -> None:
    lists = step_lists(rule, dtype, moments)
    lists["grads"][0].fill_(torch.nan)
    before, copies = clones(lists), copies_like()
    options = {"copies": copies, "seed": 3, "grad_scale": torch.inf}
    step(rule, lists, StepOptions(skip=number(1.0, torch.float32), **options))
    assert_same(lists, before)
    step(rule, lists, StepOptions(skip=torch.tensor(torch.nan), zero_grads=True, **options))
    assert all((grad == 0).all() for grad in lists["grads"])
    del lists["grads"], before["grads"]
    assert_same(lists, before)
    assert all((copy == 9).all() for copy in copies)


@pytest.mark.parametrize("rule", RULES)
def test_skip_of_zero_is_a_step(rule: str) -> None:
    lists = step_lists(rule)
    plain = clones(lists)
    step(rule, plain)
    step(rule, lists, StepOptions(skip=torch.tensor(0.0)))
    assert_same(lists, plain)


@pytest.mark.parametrize("rule", ["adamw", "sgd"])
@pytest.mark.parametrize("shape", [(1,), ()])
def test_skipped_steps_are_subtracted_from_times(rule: str, shape: tuple[int, ...]) -> None:
    lists = step_lists(rule)
    earlier = clones(lists)
    skipped = torch.full(shape, 4.0, dtype=torch.float64)
    step(rule, lists, StepOptions(skipped=skipped), times=[5, 6, 7, 8, 9, 9])
    step(rule, earlier, times=[1, 2, 3, 4, 5, 5])
    assert_same(lists, earlier)
    assert skipped.tolist() == torch.full(shape, 4.0).tolist()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies_are_the_new_weights_and_gradients_are_zeroed(rule: str, dtype: torch.dtype) -> None:
    lists = step_lists(rule, dtype)
    plain, copies = clones(lists), copies_like()
    step(rule, plain)
    step(rule, lists, StepOptions(copies=copies, zero_grads=True))
    assert all((grad == 0).all() for grad in lists["grads"])
    for param, copy in zip(lists["params"], copies, strict=True):
        # By one rounding, as NumPy's; torch rounds float64 to float32 first (torch 2.13).
        is_double = param.dtype == torch.float64 and copy.dtype == torch.float16
        exact = torch.from_numpy(param.numpy().astype(np.float16)) if is_double else param.to(copy.dtype)
        assert torch.equal(copy, exact)
    del lists["grads"], plain["grads"]
    assert_same(lists, plain)


def test_tensors_that_are_not_contiguous() -> None:
    lists = step_lists("lion", shapes=((65, 9), (30,)))
    plain = clones(lists)
    strided = {
        key: [first.t().contiguous().t(), second.repeat_interleave(3)[::3]] for key, (first, second) in lists.items()
    }
    copies = [torch.zeros(9, 65, dtype=torch.bfloat16).t(), torch.zeros(90, dtype=torch.bfloat16)[::3]]
    step("lion", plain, StepOptions(zero_grads=True))
    step("lion", strided, StepOptions(zero_grads=True, copies=copies))
    assert_same(strided, plain)
    assert all(torch.equal(copy, param.bfloat16()) for copy, param in zip(copies, plain["params"], strict=True))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("moments", MOMENTS[:3], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_that_lie_alike_are_stepped_as_they_lie(
    rule: str, moments: torch.dtype | None, dtype: torch.dtype
) -> None:
    shape = (6, 5, 3, 7)
    lists = step_lists(rule, dtype, moments, shapes=(shape,))
    plain = clones(lists)
    last = {
        key: [it.to(memory_format=torch.channels_last) if it.shape == shape else it for it in tensors]
        for key, tensors in lists.items()
    }
    copies = [torch.zeros(shape, dtype=torch.bfloat16).to(memory_format=torch.channels_last)]
    step(rule, plain, StepOptions(clip_value=0.5, zero_grads=True))
    with torch.profiler.profile() as profile:
        step(rule, last, StepOptions(clip_value=0.5, zero_grads=True, copies=copies))
    assert_same(last, plain)
    assert torch.equal(copies[0], plain["params"][0].bfloat16())
    assert not [it.key for it in profile.key_averages() if it.key in ("aten::copy_", "aten::clone", "aten::empty")]
    # By chance values are rounded by their place among the dimensions, wherever they lie.
    step(rule, plain, StepOptions(seed=3))
    step(rule, last, StepOptions(seed=3))
    assert_same(last, plain)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("moments", MOMENTS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_isa_and_thread_count_gives_the_same_bits(
    rule: str, moments: torch.dtype | str | None, dtype: torch.dtype
) -> None:
    torch.manual_seed(1)
    lists = step_lists(rule, dtype, moments)
    factors = torch.rand(len(SHAPES), dtype=torch.float64)

    def outcome(seed: int | None) -> dict[str, list[Tensor]]:
        own, copies = clones(lists), copies_like()
        settings = {"factors": factors, "clip_value": 0.9, "copies": copies, "zero_grads": True}
        step(rule, own, StepOptions(grad_scale=0.7, seed=seed, **settings))
        return own | {"copies": copies}

    threads = torch.get_num_threads()
    for seed in (None, 5):
        with force_cpu_isa("default"):
            torch.set_num_threads(1)
            try:
                expected = outcome(seed)
            finally:
                torch.set_num_threads(threads)
        for isa in native_status().isas:
            with force_cpu_isa(isa):
                assert_same(outcome(seed), expected)


def test_versions_of_all_that_is_written_are_bumped() -> None:
    lists = step_lists("adamw", moments="8bit")
    copies = copies_like()
    step("adamw", lists, StepOptions(copies=copies))
    written = [*copies, *(tensor for key, tensors in lists.items() if key != "grads" for tensor in tensors)]
    assert all(tensor._version == 1 for tensor in written)
    assert all(tensor._version == 0 for tensor in lists["grads"])
    step("adamw", lists, StepOptions(zero_grads=True))
    assert all(tensor._version == 1 for tensor in lists["grads"])


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_options_in_a_compiled_step() -> None:
    torch.compiler.reset()
    lists = step_lists("lion", shapes=((5,), (3, 3)))
    plain, copies = clones(lists), [torch.zeros(5).bfloat16(), torch.zeros(3, 3).bfloat16()]
    factors = torch.tensor([0.5, 2.0], dtype=torch.float64)

    @torch.no_grad()
    def call(params: list[Tensor], grads: list[Tensor], moments: list[Tensor], factors: Tensor) -> None:
        options = StepOptions(factors=factors, copies=copies, zero_grads=True, clip_value=1.0, seed=3)
        lion_step_(params, grads, moments, lr=0.1, options=options)

    torch.compile(call, fullgraph=True)(lists["params"], lists["grads"], lists["moments"], factors)
    compiled = [copy.clone() for copy in copies]
    call(plain["params"], plain["grads"], plain["moments"], factors)
    assert_same(lists, plain)
    torch.testing.assert_close(copies, compiled, rtol=0, atol=0)
    assert all((grad == 0).all() for grad in lists["grads"])


def test_options_out_of_range() -> None:
    for value in (-1.0, torch.nan):
        with pytest.raises(ArgumentError, match="clip_value >= 0"):
            StepOptions(clip_value=value)
    with pytest.raises(ArgumentError, match="fits in 64 bits"):
        StepOptions(seed=2**63)
