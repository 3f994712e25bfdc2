"""`convolution_3x3` beside torch's convolutions in float64."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from burnlike import ops
from burnlike.errors import ArgumentError, DTypeError, ShapeError
from burnlike.ops import force_cpu_isa, native_status

Sizes = tuple[int, int, int, int, int]
"""Images, height, width, channels of the input and of the result."""
SIZES: list[Sizes] = [
    (2, 8, 8, 16, 16),
    (3, 5, 7, 32, 48),
    (1, 1, 1, 16, 64),
    (1, 2, 13, 64, 16),
    (16, 4, 4, 128, 128),  # in tiles of 2 x 2
    (24, 16, 16, 64, 80),  # in tiles of 4 x 4, and several blocks in both passes
    (40, 12, 12, 96, 32),
]
DTYPES = [torch.float32, torch.bfloat16]
ISAS = [isa for isa in native_status().isas if isa != "avx512_bf16"]


def tensors_of(sizes: Sizes, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Images, a weight, and a gradient of the result."""
    images, height, width, channels_in, channels = sizes
    torch.manual_seed(1)
    x = torch.randn(images, height, width, channels_in).to(dtype)
    weight = (torch.randn(channels, channels_in, 3, 3) / (3 * channels_in**0.5)).to(dtype)
    return [x, weight, torch.randn(images, height, width, channels).to(dtype)]


def results_of(convolve: Callable[..., Tensor], x: Tensor, weight: Tensor, grad: Tensor, *transposed: bool) -> Any:
    leaves = [it.detach().clone().requires_grad_() for it in (x, weight)]
    y = convolve(*leaves, *transposed)
    return y.detach(), *torch.autograd.grad(y, leaves, grad)


def conv2d(x: Tensor, weight: Tensor, transposed: bool = False) -> Tensor:
    images = x.permute(0, 3, 1, 2)
    result = F.conv_transpose2d(images, weight, padding=1) if transposed else F.conv2d(images, weight, padding=1)
    return result.permute(0, 2, 3, 1)


@pytest.mark.parametrize("transposed", [False, True], ids=["forward", "transposed"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_results_and_gradients_are_near_those_of_float64(sizes: Sizes, transposed: bool) -> None:
    x, weight, grad = tensors_of(sizes)
    if transposed:
        x, grad = grad, x
    exact = results_of(conv2d, x.double(), weight.double(), grad.double(), transposed)
    for actual, expected in zip(results_of(ops.convolution_3x3, x, weight, grad, transposed), exact, strict=True):
        assert actual.is_contiguous()
        distance = (actual.double() - expected).square().mean().sqrt() / expected.square().mean().sqrt()
        # Of a sum of products it is up to 6e-7 here.
        assert distance < 3e-6


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bfloat16_is_as_near_to_float64_as_torchs(sizes: Sizes) -> None:
    tensors = tensors_of(sizes, torch.bfloat16)
    exact = results_of(conv2d, *(it.double() for it in tensors))
    for actual, other, expected in zip(
        *(results_of(it, *tensors) for it in (ops.convolution_3x3, conv2d)), exact, strict=True
    ):
        assert actual.dtype == torch.bfloat16
        distance, of_torch = ((it.double() - expected).norm() for it in (actual, other))
        assert distance <= 1.05 * of_torch


def test_a_value_that_is_not_a_number_stays_one_in_bfloat16() -> None:
    x, weight, _ = tensors_of((1, 4, 4, 16, 16), torch.bfloat16)
    x[0, 1, 1, 3] = torch.nan
    assert ops.convolution_3x3(x, weight)[0, :3, :3].isnan().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES[-3:], ids=str)
def test_bits_are_the_same_for_any_number_of_threads(sizes: Sizes, dtype: torch.dtype) -> None:
    tensors = tensors_of(sizes, dtype)
    threads = torch.get_num_threads()
    expected = results_of(ops.convolution_3x3, *tensors)
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            for actual, other in zip(results_of(ops.convolution_3x3, *tensors), expected, strict=True):
                assert torch.equal(actual, other)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_set_is_near_float64(isa: str) -> None:
    tensors = tensors_of((3, 9, 6, 48, 80))
    exact = results_of(conv2d, *(it.double() for it in tensors))
    with force_cpu_isa(isa):
        results = results_of(ops.convolution_3x3, *tensors)
    for actual, expected in zip(results, exact, strict=True):
        torch.testing.assert_close(actual.double(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.skipif("avx512" not in ISAS, reason="one of the two is not on this processor")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_avx2_and_avx512_give_the_same_bits(dtype: torch.dtype) -> None:
    tensors = tensors_of((3, 9, 6, 48, 80), dtype)
    results: list[Any] = []
    for isa in ("avx2", "avx512"):
        with force_cpu_isa(isa):
            results.append(results_of(ops.convolution_3x3, *tensors))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_second_derivatives_are_those_of_the_reference() -> None:
    x, weight, grad = tensors_of((2, 5, 4, 32, 32))
    directions = [torch.randn_like(x), torch.randn_like(weight)]

    def second(convolve: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        leaves = [it.to(dtype).requires_grad_() for it in (x.clone(), weight.clone(), grad.clone())]
        y = convolve(leaves[0], leaves[1])
        first = torch.autograd.grad(y.square(), leaves[:2], leaves[2], create_graph=True)
        total = sum((one * other.to(dtype)).sum() for one, other in zip(first, directions, strict=True))
        assert isinstance(total, Tensor)
        return list(torch.autograd.grad(total, leaves))

    for actual, expected in zip(second(ops.convolution_3x3, torch.float32), second(conv2d, torch.float64), strict=True):
        # Sums of terms that cancel are rounded by the size of the largest: torch's own, too, by 4e-7 of it.
        torch.testing.assert_close(actual.double(), expected, rtol=0, atol=2e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("raw", ["convolution_3x3", "convolution_3x3_backward"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_opcheck(raw: str, transposed: bool, dtype: torch.dtype) -> None:
    x, weight, grad = (it.requires_grad_() for it in tensors_of((2, 4, 4, 32, 16), dtype))
    arguments = (grad if transposed else x, weight, transposed) if raw == "convolution_3x3" else (grad, x)
    torch.library.opcheck(getattr(torch.ops.burnlike, raw).default, arguments)


_IN_A_SMALL_MEMORY = """
import resource
from pathlib import Path
import torch
from burnlike import ops

small = torch.randn(2, 8, 8, 16), torch.randn(16, 16, 3, 3)
large = torch.randn(1, 8, 8, 2048), torch.randn(2048, 2048, 3, 3)
expected = ops.convolution_3x3(*small)

def size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

before = size()
resource.setrlimit(resource.RLIMIT_AS, (before + 200_000_000, -1))
try:
    ops.convolution_3x3(*large)
except (MemoryError, RuntimeError):  # the latter with torch 2.15
    assert torch.equal(ops.convolution_3x3(*small), expected)
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    ops.convolution_3x3(*large)
    print((size() - before) // 1_000_000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read where Linux has it")
def test_memory_that_was_not_to_be_had_and_large_memory_is_not_kept() -> None:
    """The transformed weight takes 600 MB."""
    program = [sys.executable, "-c", _IN_A_SMALL_MEMORY]
    run = subprocess.run(program, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 100


def test_transforms_take_the_reference() -> None:
    x, weight, _ = tensors_of((2, 4, 4, 16, 16))
    mapped = torch.func.vmap(lambda it: ops.convolution_3x3(it[None], weight)[0])(x)
    torch.testing.assert_close(mapped, conv2d(x, weight))


def test_memory_that_is_not_in_one_piece_is_read() -> None:
    x, weight, _ = tensors_of((2, 6, 6, 32, 16))
    image = x.permute(0, 3, 1, 2).contiguous()  # in the stock layout
    torch.testing.assert_close(ops.convolution_3x3(image.permute(0, 2, 3, 1), weight), conv2d(x, weight))
    of_parts = torch.cat([weight, weight])[::2]
    torch.testing.assert_close(ops.convolution_3x3(x, of_parts), conv2d(x, of_parts))


def test_flops_are_those_of_a_convolution() -> None:
    x, weight, _ = tensors_of((2, 8, 8, 16, 32))
    with FlopCounterMode(display=False) as ours:
        ops.convolution_3x3(x, weight)
    with FlopCounterMode(display=False) as theirs:
        conv2d(x, weight)
    assert ours.get_total_flops() == theirs.get_total_flops()


@pytest.mark.parametrize(
    ("x", "weight", "error", "message"),
    [
        ((1, 4, 4, 15), (16, 15, 3, 3), ShapeError, "multiples of 16"),
        ((1, 4, 4, 16), (16, 32, 3, 3), ShapeError, r"\[channels, 16, 3, 3\]"),
        ((1, 4, 4, 16), (16, 16, 5, 5), ShapeError, r"\[16, 16, 5, 5\]"),
        ((4, 4, 16), (16, 16, 3, 3), ShapeError, r"images \[n, h, w, c\]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    x: tuple[int, ...], weight: tuple[int, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ops.convolution_3x3(torch.ones(x), torch.ones(weight))


def test_other_dtypes_and_freed_memory_are_refused() -> None:
    x, weight, _ = tensors_of((1, 4, 4, 16, 16))
    with pytest.raises(DTypeError, match="float32"):
        ops.convolution_3x3(x.double(), weight)
    weight.untyped_storage().resize_(0)
    with pytest.raises(ArgumentError, match="freed"):
        ops.convolution_3x3(x, weight)
