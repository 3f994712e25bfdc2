"""`int8_linear`: whole numbers that are added exactly, scales in float32, and the same of both gradients."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from burnlike.errors import DTypeError, ShapeError
from burnlike.ops import force_cpu_isa, int8_linear, int8_linear_reference, native_status
from burnlike.ops.int8_linear import LONGEST_SUM

FLOATS = (torch.float32, torch.bfloat16)
SIZES = [(1, 1, 1), (5, 3, 7), (17, 50, 65), (64, 48, 64), (130, 200, 387), (33, 47, 130)]
"""Rows, outputs and inputs: below, at and above what kernels take at once."""


@pytest.fixture(params=[None, *native_status().isas])
def isa(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Each instruction set; None for the reference."""
    if request.param is None:
        yield None
        return
    with force_cpu_isa(request.param):
        yield request.param


def function_of(isa: str | None) -> Callable[..., Tensor]:
    if isa is not None:
        return int8_linear
    return lambda x, weight, bias=None: int8_linear_reference(x, weight, bias, x.dtype == torch.bfloat16)


def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in 8 bits as int64, and their scales: max |x| / 127."""
    scales = x.float().abs().amax(1, keepdim=True) / 127
    return (x.float() * (1 / scales)).round().long(), scales


def expected(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """In integers of 64 bits, and then in float32."""
    (rows, row_scales), (columns, column_scales) = rounded(x), rounded(weight)
    found = (rows @ columns.mT).float() * column_scales.mT * row_scales
    return (found if bias is None else found + bias).to(x.dtype)


def exact(x: Tensor, weight: Tensor) -> Tensor:
    """The formula in float64."""
    (rows, row_scales), (columns, column_scales) = rounded(x), rounded(weight)
    return (rows.double() * row_scales) @ (columns.double() * column_scales).mT


def made(rows: int, columns: int, dtype: torch.dtype, transposed: bool = False) -> Tensor:
    x = torch.randn(*((columns, rows) if transposed else (rows, columns)), dtype=dtype)
    return x.mT if transposed else x


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_results_have_the_bits_of_integers_of_64_bits(isa: str | None, dtype: torch.dtype, transposed: bool) -> None:
    torch.manual_seed(0)
    for rows, outputs, inputs in SIZES:
        x, weight = made(rows, inputs, dtype, transposed), made(outputs, inputs, torch.float32, not transposed)
        for bias in (None, torch.randn(outputs)):
            assert torch.equal(function_of(isa)(x, weight, bias), expected(x, weight, bias))


def test_the_longest_and_largest_sums_are_exact(isa: str | None) -> None:
    # All of one sign, and of both: sums of pairs and fours that saturating instructions would cut.
    signs = torch.tensor([1.0, -1.0]).repeat(LONGEST_SUM // 2)
    x, weight = torch.stack((torch.ones(LONGEST_SUM), signs)), torch.stack((-torch.ones(LONGEST_SUM), signs))
    found = function_of(isa)(127 * x, 127 * weight)
    assert found.tolist() == [[-(127**2) * LONGEST_SUM, 0.0], [0.0, 127**2 * LONGEST_SUM]]


def test_longer_sums_are_taken_in_parts() -> None:
    x = torch.ones(2, LONGEST_SUM + 8)
    x[:, LONGEST_SUM:] *= 0.001  # which scales of the whole row would make 0
    weight, bias = torch.ones(3, x.shape[1]), torch.ones(3)
    torch.testing.assert_close(int8_linear(x, weight, bias), x.sum(1, keepdim=True).expand(2, 3) + 1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_are_those_of_the_formula_in_float64(isa: str | None, dtype: torch.dtype, transposed: bool) -> None:
    torch.manual_seed(0)
    x, weight = made(70, 40, dtype), made(30, 40, torch.float32, transposed)
    bias, grad = torch.randn(30), torch.randn(70, 30, dtype=dtype)
    given = [it.requires_grad_() for it in (x, weight, bias)]
    found = torch.autograd.grad(function_of(isa)(*given), given, grad)
    wanted = exact(grad, weight.detach().mT), exact(grad.mT, x.detach().mT), grad.double().sum(0)
    for one, other, leaf in zip(found, wanted, given, strict=True):
        assert one.dtype == leaf.dtype
        precision = torch.finfo(one.dtype).eps
        torch.testing.assert_close(one.double(), other, rtol=2 * precision, atol=20 * precision)


def test_a_row_that_is_not_finite_is_nan_and_one_of_zeros_is_the_bias(isa: str | None) -> None:
    x, weight = torch.randn(6, 40), torch.randn(20, 40)
    x[1, 3], x[2, 5], x[3] = torch.nan, -torch.inf, 0.0
    x[4], weight[7, 2] = 1e-38, torch.inf  # smaller than a scale can be
    found, bias = function_of(isa)(x, weight, torch.ones(20)), torch.ones(19)
    assert found[[1, 2]].isnan().all()
    assert found[:, 7].isnan().all()
    others = [it for it in range(20) if it != 7]
    assert torch.equal(found[3, others], bias)
    assert torch.equal(found[4, others], bias)
    assert torch.equal(found[[0, 5]][:, others], expected(x[[0, 5]], weight[others], bias))


@pytest.mark.skipif(find_spec("torchao") is None, reason="needs torchao")
@pytest.mark.slow
def test_results_and_gradients_are_torchaos() -> None:
    from torchao.prototype.quantized_training.int8_mixed_precision import (
        Int8MixedPrecisionTrainingConfig,
        _Int8MixedPrecisionTrainingLinearFunction,
    )

    torch.manual_seed(0)
    given = [torch.randn(64, 48, requires_grad=True), torch.randn(32, 48, requires_grad=True)]
    ours = int8_linear(*given)
    theirs = _Int8MixedPrecisionTrainingLinearFunction.apply(*given, None, Int8MixedPrecisionTrainingConfig())
    assert torch.equal(ours, theirs)
    grad = torch.randn_like(ours)
    for one, other in zip(*(torch.autograd.grad(it, given, grad) for it in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=0)  # its scales come in another order


def test_threads_and_shapes_of_no_values_change_nothing() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(2, 150, 70), torch.randn(100, 70)
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            found.append(int8_linear(x, weight))
    finally:
        torch.set_num_threads(threads)
    assert found[0].shape == (2, 150, 100)
    assert all(torch.equal(found[0], it) for it in found)
    assert int8_linear(x[:0], weight).shape == (0, 150, 100)
    assert torch.equal(int8_linear(x[..., :0], weight[:, :0], torch.ones(100)), torch.ones(2, 150, 100))
    assert torch.equal(int8_linear(x[0, 0], weight), found[0][0, 0])


def test_autocast_computes_in_bfloat16_and_leaves_weights_and_gradients_in_float32() -> None:
    x, weight = torch.randn(8, 16, requires_grad=True), torch.randn(4, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = int8_linear(x, weight)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, expected(x.detach(), weight.detach(), None).bfloat16())
    y.sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    assert {x.grad.dtype, weight.grad.dtype} == {torch.float32}
    with torch.autocast("cpu", torch.float16), pytest.raises(DTypeError, match="float32 or bfloat16, got float16"):
        int8_linear(x, weight)


def test_opcheck_and_transforms() -> None:
    x, weight, bias = torch.randn(9, 20, requires_grad=True), torch.randn(12, 20, requires_grad=True), torch.randn(12)
    torch.library.opcheck(torch.ops.burnlike.int8_linear.default, (x, weight, bias, True))
    found = int8_linear(x, weight, bias)
    assert torch.equal(torch.vmap(lambda row: int8_linear(row[None], weight, bias)[0])(x), found)
    grads = torch.func.grad(lambda it: int8_linear(it, weight.detach()).square().sum())(x.detach())
    assert torch.equal(grads, torch.autograd.grad(int8_linear(x, weight.detach()).square().sum(), x)[0])


def test_what_does_not_fit_is_refused() -> None:
    x, weight = torch.randn(3, 4), torch.randn(5, 4)
    with pytest.raises(ShapeError, match=r"expected x of shape \[3, 6\], got \[3, 4\]"):
        int8_linear(x, torch.randn(5, 6))
    with pytest.raises(ShapeError, match=r"expected bias of shape \[5\], got \[4\]"):
        int8_linear(x, weight, torch.randn(4))
    with pytest.raises(DTypeError, match="got float64"):
        int8_linear(x.double(), weight)
    with pytest.raises(DTypeError, match="expected weight of dtype float32 or bfloat16, got float16"):
        int8_linear(x, weight.half())
    with pytest.raises(ShapeError, match=r"weight \[d_output, d_input\], got \[3, 4\] and \[4\]"):
        int8_linear(x, weight[0])
