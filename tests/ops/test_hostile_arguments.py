"""Whatever a native op is called with, it refuses or is right; never a crash, a write out of bounds or a half step."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from burnlike.errors import ArgumentError
from burnlike.ops import (
    StepOptions,
    adamw_step_,
    adamw_step_reference,
    convert_,
    gradient_squares_,
    lion_step_,
    read_values_,
    rms_norm,
    sgd_step_,
    sgd_step_reference,
)

from .hostile import assert_right, freed, misaligned, negative_view, overlapping, shrunk

CALLS = 400
"""More are made under the sanitizers, by `make fuzz-ops`."""

# Each op with one tensor among those that it is given.
GIVEN_ONE: dict[str, Callable[[Tensor], object]] = {
    "rms_norm x": lambda it: rms_norm(it, torch.ones(it.shape[-1])),
    "rms_norm gamma": lambda it: rms_norm(torch.ones(2, 64), it),
    "gradient_squares_": lambda it: gradient_squares_([it], torch.zeros(1, dtype=torch.float64)),
    "convert_ source": lambda it: convert_([torch.zeros(it.shape)], [it], torch.zeros(1, dtype=torch.int32)),
    "convert_ target": lambda it: convert_([it], [torch.zeros(it.shape)], torch.zeros(1, dtype=torch.int32)),
    "sgd_step_ param": lambda it: sgd_step_([it], [torch.ones(it.shape)], times=[1], lr=0.1),
    "sgd_step_ grad": lambda it: sgd_step_([torch.ones(it.shape)], [it], times=[1], lr=0.1),
    "sgd_step_ velocity": lambda it: sgd_step_([torch.ones(it.shape)], [torch.ones(it.shape)], [it], times=[1], lr=0.1),
    "adamw_step_ moment": lambda it: adamw_step_(
        [torch.ones(it.shape)], [torch.ones(it.shape)], [it], [torch.ones(it.shape)], times=[1], lr=0.1
    ),
    "lion_step_ copy": lambda it: lion_step_(
        *([torch.ones(it.shape)] for _ in range(3)), lr=0.1, options=StepOptions(copies=[it])
    ),
}


def part_of_freed(take: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Makes a part of a tensor that is freed afterwards."""

    def make(tensor: Tensor) -> Tensor:
        whole = torch.cat([tensor, tensor])
        part = take(whole)
        whole.untyped_storage().resize_(0)
        return part

    return make


WITHOUT_MEMORY: dict[str, Callable[[Tensor], Tensor]] = {
    "all": freed,
    "half": shrunk,
    "from an offset on": part_of_freed(lambda it: it[64:]),
    "every second value": part_of_freed(lambda it: it[::2]),
}


@pytest.mark.slow
def test_random_calls_are_refused_or_right() -> None:
    taken = sum(assert_right(seed) for seed in range(CALLS))
    assert CALLS / 4 < taken < CALLS * 7 / 8


@pytest.mark.parametrize("call", GIVEN_ONE.values(), ids=GIVEN_ONE)
@pytest.mark.parametrize("take", WITHOUT_MEMORY.values(), ids=WITHOUT_MEMORY)
def test_memory_that_was_freed_is_named(call: Callable[[Tensor], object], take: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ArgumentError, match=r"with its values, \d+ bytes, got a storage of \d+|to be contiguous"):
        call(take(torch.randn(64)))


@pytest.mark.parametrize("call", GIVEN_ONE.values(), ids=GIVEN_ONE)
def test_an_address_that_fits_no_float_is_taken_or_refused_in_words(call: Callable[[Tensor], object]) -> None:
    tensor = misaligned(torch.randn(64))
    assert tensor.data_ptr() % 4 == 1
    with contextlib.suppress(ArgumentError):
        call(tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_misaligned_values_are_computed_as_aligned_ones(dtype: torch.dtype) -> None:
    aligned = [torch.randn(5, 7).abs().to(dtype) for _ in range(4)]
    odd = [misaligned(tensor) for tensor in aligned]
    for tensors in (aligned, odd):
        adamw_step_(*([tensor] for tensor in tensors), times=[3], lr=0.1)
    torch.testing.assert_close(odd, aligned, rtol=0, atol=0)
    assert torch.equal(
        rms_norm(odd[0], misaligned(torch.ones(7, dtype=dtype))), rms_norm(aligned[0], torch.ones(7, dtype=dtype))
    )


def test_values_that_share_memory_are_not_written() -> None:
    param = overlapping(torch.ones(3, 3))
    before = param.clone()
    with pytest.raises(ArgumentError, match="an expanded tensor, or one with overlapping strides"):
        sgd_step_([torch.ones(2), param], [torch.ones(2), torch.ones(3, 3)], times=[1, 1], lr=0.1)
    assert torch.equal(param, before)


def test_lazily_negated_tensors_are_refused_before_anything_is_written() -> None:
    param = torch.ones(2)
    with pytest.raises(ArgumentError, match=r"is negated lazily.*resolve_neg"):
        sgd_step_([param, negative_view(torch.ones(2))], [torch.ones(2), torch.ones(2)], times=[1, 1], lr=0.1)
    assert torch.equal(param, torch.ones(2))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_one_factor_may_have_no_dimension(shape: tuple[int, ...]) -> None:
    results = []
    for step in (sgd_step_, sgd_step_reference):
        params = [torch.ones(3), torch.ones(2)]
        options = StepOptions(factors=torch.full(shape, 0.5, dtype=torch.float64))
        step(params, [torch.ones(3), torch.ones(2)], times=[1, 1], lr=0.5, options=options)
        results.append(params)
    assert results[0][0].tolist() == [0.75] * 3
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


INF, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e-40, 3e38, -3e38, INF, -INF, NAN, 2e-20, 7.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("scalar", [5e-324, 1e-40, 1e-30, 1.0, 1e30, 1e300, INF, NAN, -1.0])
def test_special_scalars_and_values_give_what_the_reference_gives(scalar: float, dtype: torch.dtype) -> None:
    """Every special value with every other, in parameter, gradient and moments."""
    p, g = (it.flatten().to(dtype) for it in torch.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
    for keywords in (
        {"weight_decay": scalar},
        {"weight_decay": scalar, "coupled": True},
        {"weight_decay": scalar, "cautious": True},
        {"epsilon": scalar},
        {"lr": scalar},
        {"options": StepOptions(clip_value=abs(scalar) if scalar == scalar else 1.0)},
        {"coupled": True, "options": StepOptions(clip_value=1e-40)},
    ):
        both = []
        for step in (adamw_step_, adamw_step_reference):
            tensors = [p.clone(), g.clone(), g.roll(5), p.roll(3).abs(), p.roll(7).abs()]
            step(*([it] for it in tensors[:4]), times=[2], max_moments_2=[tensors[4]], **({"lr": 0.1} | keywords))
            both.append(tensors)
        torch.testing.assert_close(*both, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=0, equal_nan=True)
        if "weight_decay" in keywords and len(keywords) == 1:
            both = []
            for step in (sgd_step_, sgd_step_reference):
                tensors = [p.clone(), g.clone()]
                step(*([it] for it in tensors), times=[2], **({"lr": 0.1} | keywords))
                both.append(tensors)
            torch.testing.assert_close(*both, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=0, equal_nan=True)


def test_checksums_are_of_contiguous_bytes_that_are_there() -> None:
    crc32 = torch.ops.burnlike.crc32.default
    data = torch.arange(100, dtype=torch.uint8)
    assert crc32(data.view(10, 10), 0) == crc32(data, 0)
    for wrong, said in (
        (data.view(torch.int8), "expected bytes as uint8"),
        (data[::2], "not contiguous"),
        (freed(data.clone()), "storage was freed"),
    ):
        with pytest.raises(RuntimeError, match=said):
            crc32(wrong, 0)
    for start in (-1, 2**32):
        with pytest.raises(RuntimeError, match=r"expected a start from 0 to 2\^32 - 1"):
            crc32(data, start)


def test_reading_checks_descriptor_offset_and_memory(tmp_path: Path) -> None:
    (tmp_path / "values").write_bytes(bytes(64))
    descriptor = os.open(tmp_path / "values", os.O_RDONLY)
    try:
        assert read_values_(torch.ones(4), descriptor, 0, torch.float32) == 16
        for wrong in (-1, descriptor + 2**32):
            with pytest.raises(RuntimeError, match="expected the descriptor of a file"):
                read_values_(torch.ones(4), wrong, 0, torch.float32)
        for wrong in (-1, 2**63 - 8):
            with pytest.raises(RuntimeError, match="the offset is negative or too large"):
                read_values_(torch.ones(4), descriptor, wrong, torch.float32)
        with pytest.raises(RuntimeError, match="storage was freed"):
            read_values_(freed(torch.ones(4)), descriptor, 0, torch.float32)
        with pytest.raises(RuntimeError, match="not aligned"):
            read_values_(misaligned(torch.ones(4)), descriptor, 0, torch.float64)
    finally:
        os.close(descriptor)
