"""`grouped_convolution` beside torch's convolutions in float64."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing._internal.optests.generate_tests import DEFAULT_TEST_UTILS
from torch.utils.flop_counter import FlopCounterMode

from burnlike import ops
from burnlike.errors import ArgumentError, DTypeError, ShapeError
from burnlike.ops import force_cpu_isa, native_status

from ..marks import slow
from .op_case import TOLERANCE

Sizes = tuple[int, int, int, int, int, tuple[int, int], int, int]
"""Images, height, width, channels, those of a group, kernel, stride and padding."""
SIZES: list[Sizes] = [
    (2, 8, 8, 16, 1, (3, 3), 1, 1),
    (3, 9, 7, 20, 1, (5, 5), 2, 2),
    (2, 2, 2, 40, 1, (7, 7), 1, 3),
    (1, 6, 11, 72, 1, (1, 9), 3, 4),
    (4, 12, 10, 136, 1, (3, 5), 2, 0),
    (2, 5, 4, 64, 1, (4, 4), 1, 2),
    (5, 6, 5, 22, 2, (3, 3), 1, 1),
    (5, 7, 6, 36, 4, (3, 3), 2, 1),
    (6, 6, 5, 40, 8, (3, 3), 1, 1),
    (4, 7, 4, 48, 16, (3, 3), 2, 1),
    (9, 2, 2, 72, 24, (3, 3), 1, 1),
    (1, 5, 6, 96, 32, (3, 5), 3, 2),
    (2, 3, 3, 80, 40, (1, 1), 2, 0),
]
ISAS = [isa for isa in native_status().isas if isa != "avx512_bf16"]
DTYPES = (torch.float32, torch.bfloat16)


def tensors_of(sizes: Sizes, dtype: torch.dtype) -> list[Tensor]:
    """Images, a weight and a bias."""
    images, height, width, channels, group, kernel, _, _ = sizes
    torch.manual_seed(1)
    tensors = [
        torch.randn(images, height, width, channels),
        torch.randn(channels, group, *kernel),
        torch.randn(channels),
    ]
    return [it.to(dtype) for it in tensors]


def results_of(function: Any, tensors: list[Tensor], sizes: Sizes) -> list[Tensor]:
    leaves = [it.detach().clone().requires_grad_() for it in tensors]
    y = function(*leaves, *sizes[-2:])
    torch.manual_seed(2)
    grad = torch.randn(y.shape).to(tensors[0].dtype if tensors[0].dtype != torch.float64 else torch.float64)
    return [y.detach(), *torch.autograd.grad(y, leaves, grad)]


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    y = F.conv2d(x.permute(0, 3, 1, 2), weight, bias, stride, padding, groups=weight.shape[0] // weight.shape[1])
    return y.permute(0, 2, 3, 1)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_results_and_gradients_are_near_those_of_float64(sizes: Sizes, dtype: torch.dtype, isa: str) -> None:
    tensors = tensors_of(sizes, dtype)
    leaves = [it.double().requires_grad_() for it in tensors]
    y = conv2d(*leaves, *sizes[-2:])
    torch.manual_seed(2)
    grad = torch.randn(y.shape).to(dtype)
    exact = [y.detach(), *torch.autograd.grad(y, leaves, grad.double())]
    rtol, atol = TOLERANCE[dtype]
    with force_cpu_isa(isa):
        results = results_of(ops.grouped_convolution, tensors, sizes)
    for actual, expected in zip(results, exact, strict=True):
        assert actual.dtype == dtype
        assert actual.is_contiguous()
        torch.testing.assert_close(actual.double(), expected, rtol=rtol, atol=8 * atol)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("group", [1, 4, 8, 16, 24], ids=str)
def test_bits_are_the_same_for_any_number_of_threads_and_vectors(group: int, dtype: torch.dtype) -> None:
    sizes: Sizes = (6, 24, 20, {16: 64, 24: 120}.get(group, 136), group, (3, 5), 2, 2)
    tensors, threads = tensors_of(sizes, dtype), torch.get_num_threads()
    expected = results_of(ops.grouped_convolution, tensors, sizes)
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            for isa in ISAS[1:]:
                with force_cpu_isa(isa):
                    for actual, other in zip(
                        results_of(ops.grouped_convolution, tensors, sizes), expected, strict=True
                    ):
                        assert torch.equal(actual, other)
    finally:
        torch.set_num_threads(threads)


def test_second_derivatives_are_those_of_float64() -> None:
    sizes: Sizes = (2, 5, 4, 16, 4, (3, 3), 1, 1)

    def second(dtype: torch.dtype) -> list[Tensor]:
        x, weight, bias = (it.to(dtype).requires_grad_() for it in tensors_of(sizes, torch.float32))
        function: Any = ops.grouped_convolution if dtype == torch.float32 else conv2d
        first = torch.autograd.grad(function(x, weight, bias, 1, 1).square().sum(), (x, weight), create_graph=True)
        return list(torch.autograd.grad(first[0].square().sum() + first[1].sum(), (x, weight, bias)))

    for actual, expected in zip(second(torch.float32), second(torch.float64), strict=True):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("has_bias", [True, *slow(False)])
def test_opcheck(has_bias: bool) -> None:
    x, weight, bias = (it.requires_grad_() for it in tensors_of(SIZES[1], torch.float32))
    arguments = (x, weight, bias if has_bias else None, 2, 2)
    torch.library.opcheck(torch.ops.burnlike.grouped_convolution.default, arguments)
    grad = torch.randn_like(ops.grouped_convolution(*arguments)).requires_grad_()
    # torch 2.11 has no second derivative of a convolution for sizes that are symbols.
    tests = (
        DEFAULT_TEST_UTILS if torch.__version__ >= "2.13" else [it for it in DEFAULT_TEST_UTILS if "dynamic" not in it]
    )
    backward = torch.ops.burnlike.grouped_convolution_backward.default
    torch.library.opcheck(backward, (grad, x, weight, 2, 2), test_utils=tests)


def test_flops_are_those_of_a_convolution() -> None:
    tensors = tensors_of(SIZES[1], torch.float32)
    counts: list[int] = []
    for function in (ops.grouped_convolution, conv2d):
        with FlopCounterMode(display=False) as counter:
            function(*tensors, 2, 2)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("x", "weight", "options", "error", "message"),
    [
        ((1, 4, 4, 15), (15, 1, 3, 3), (1, 1), ShapeError, "at least 16 channels"),
        ((1, 4, 4, 18), (18, 3, 3, 3), (1, 1), ShapeError, r"multiple of 8 .*\[18, 3, 3, 3\]"),
        ((1, 4, 4, 20), (20, 8, 3, 3), (1, 1), ShapeError, r"\[20, 8, 3, 3\]"),
        ((1, 4, 4, 16), (32, 1, 3, 3), (1, 1), ShapeError, r"\[32, 1, 3, 3\]"),
        ((4, 4, 16), (16, 1, 3, 3), (1, 1), ShapeError, r"images \[n, h, w, c\]"),
        ((1, 4, 4, 16), (16, 1, 7, 7), (1, 1), ShapeError, r"at least \[7, 7\]"),
        ((1, 4, 4, 16), (16, 1, 3, 3), (0, 1), ArgumentError, "stride"),
        ((1, 4, 4, 16), (16, 1, 3, 3), (1, -1), ArgumentError, "padding"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    x: tuple[int, ...], weight: tuple[int, ...], options: tuple[int, int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ops.grouped_convolution(torch.ones(x), torch.ones(weight), None, *options)


def test_other_dtypes_are_refused() -> None:
    x, weight, _ = tensors_of(SIZES[0], torch.float32)
    with pytest.raises(DTypeError, match="float32 or bfloat16"):
        ops.grouped_convolution(x.double(), weight.double())
    with pytest.raises(DTypeError, match="weight"):
        ops.grouped_convolution(x, weight.bfloat16())
