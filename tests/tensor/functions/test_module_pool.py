"""Pools and interpolation against torch in float64, and by hand where torch has none."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from burnlike import Cpu, Tensor
from burnlike.backend import Autodiff
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import module
from burnlike.tensor.options import AvgPoolOptions, InterpolateOptions, MaxPoolOptions

BACKEND = Cpu(int=torch.int32)


def images(*shape: int) -> Any:
    return Tensor(torch.randn(shape, dtype=torch.float64), BACKEND)


def row(*values: float) -> Any:
    return Tensor(torch.tensor([[values]], dtype=torch.float64), BACKEND)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pool_is_torchs_in_both_forms(ceil_mode: bool) -> None:
    x = images(2, 3, 8, 9)
    expected, indices = F.max_pool2d(x.inner, (3, 2), (2, 3), (1, 0), (1, 2), ceil_mode, return_indices=True)
    options = MaxPoolOptions([3, 2], stride=[2, 3], padding=[1, 0], dilation=[1, 2], ceil_mode=ceil_mode)
    old_form: Any = ([3, 2], [2, 3], [1, 0], [1, 2], ceil_mode)
    for args in ((options,), old_form):
        assert module.max_pool2d(x, *args).inner.equal(expected)
        values, where = module.max_pool2d_with_indices(x, *args)
        assert values.inner.equal(expected)
        assert where.inner.equal(indices.int())
    assert module.max_pool2d(x, [3, 2], [2, 3], padding=0, dilation=1, ceil_mode=False).dims() == (2, 3, 3, 3)


def test_max_pool_takes_any_padding_and_its_indices_are_those_of_the_input() -> None:
    x = row(3.0, 1.0, 2.0)
    values, indices = module.max_pool1d_with_indices(x, MaxPoolOptions(2, stride=1, padding=[(0, 1)]))
    assert (values.inner.tolist(), indices.inner.tolist()) == ([[[3.0, 2.0, 2.0]]], [[[0, 2, 2]]])
    grid = images(2, 3, 4, 5)
    values, indices = module.max_pool2d_with_indices(grid, MaxPoolOptions(3, stride=2, padding=[(2, 0), (0, 2)]))
    padded = F.pad(grid.inner, [0, 2, 2, 0], value=-math.inf)
    assert values.inner.equal(F.max_pool2d(padded, 3, 2))
    assert values.inner.equal(grid.inner.flatten(2).gather(2, indices.inner.long().flatten(2)).reshape(values.dims()))


def test_a_last_window_that_starts_in_the_padding_of_the_end_is_left_out() -> None:
    x = row(1.0, 2.0, 3.0, 4.0)
    # Windows start at 0, 2 and 4; the last one, all padding, is dropped.
    assert module.max_pool1d(x, MaxPoolOptions(2, padding=[(0, 2)], ceil_mode=True)).inner.tolist() == [[[2.0, 4.0]]]
    averages = module.avg_pool1d(x, AvgPoolOptions(3, stride=3, padding=[(0, 1)], ceil_mode=True))
    assert averages.inner.tolist() == [[[2.0, 2.0]]]  # 4 and one 0 of the padding; the window goes beyond it


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
def test_avg_pool_is_torchs_in_both_forms(count_include_pad: bool, ceil_mode: bool) -> None:
    x = images(2, 3, 8, 9)
    expected = F.avg_pool2d(x.inner, (3, 4), (2, 3), (1, 2), ceil_mode, count_include_pad)
    options = AvgPoolOptions(
        [3, 4], stride=[2, 3], padding=[1, 2], count_include_pad=count_include_pad, ceil_mode=ceil_mode
    )
    for out in (
        module.avg_pool2d(x, options),
        module.avg_pool2d(x, [3, 4], [2, 3], [1, 2], count_include_pad, ceil_mode),
    ):
        torch.testing.assert_close(out.inner, expected)


@pytest.mark.parametrize(
    ("count_include_pad", "expected"), [(True, [1 / 3, 1.0, 2.0, 5 / 3]), (False, [1.0, 1.5, 2.0, 2.5])]
)
def test_avg_pool_counts_padding_of_the_two_ends_or_not(count_include_pad: bool, expected: list[float]) -> None:
    options = AvgPoolOptions(3, stride=1, padding=[(2, 1)], count_include_pad=count_include_pad)
    assert module.avg_pool1d(row(1.0, 2.0, 3.0), options).inner[0, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("padding", [1, [(1, 0), (0, 2)]])
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_backward_of_avg_pool_is_the_gradient(padding: Any, count_include_pad: bool, ceil_mode: bool) -> None:
    inner = torch.randn(2, 3, 6, 7, dtype=torch.float64, requires_grad=True)
    options = AvgPoolOptions(
        [3, 2], stride=2, padding=padding, count_include_pad=count_include_pad, ceil_mode=ceil_mode
    )
    x: Any = Tensor(inner, Autodiff(BACKEND))
    out = module.avg_pool2d(x, options).inner
    grad = torch.randn_like(out)
    out.backward(grad)
    assert inner.grad is not None
    torch.testing.assert_close(module.avg_pool2d_backward(x, grad, options).inner, inner.grad)


def test_backward_of_max_pool_is_the_gradient() -> None:
    inner = torch.randn(2, 3, 6, 7, dtype=torch.float64, requires_grad=True)
    x: Any = Tensor(inner, Autodiff(BACKEND))
    options = MaxPoolOptions(3, stride=1, padding=1)
    out, indices = module.max_pool2d_with_indices(x, options)
    grad = torch.randn_like(out.inner)
    out.inner.backward(grad)
    assert inner.grad is not None
    for found in (
        module.max_pool2d_with_indices_backward(x, options, grad, indices),
        module.max_pool2d_with_indices_backward(x, 3, 1, 1, 1, False, grad, indices),
    ):
        torch.testing.assert_close(found.inner, inner.grad)


def test_adaptive_pools_are_torchs() -> None:
    x = images(2, 3, 7, 5, 4)
    torch.testing.assert_close(
        module.adaptive_avg_pool3d(x, [3, 4, 2]).inner, F.adaptive_avg_pool3d(x.inner, (3, 4, 2))
    )
    flat: Any = Tensor(x.inner[0], BACKEND)
    torch.testing.assert_close(
        module.adaptive_avg_pool2d(flat, [3, 6]).inner, F.adaptive_avg_pool2d(flat.inner, (3, 6))
    )
    line: Any = Tensor(x.inner[0, 0], BACKEND)
    torch.testing.assert_close(module.adaptive_avg_pool1d(line, 3).inner, F.adaptive_avg_pool1d(line.inner, 3))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(
    ("mode", "torchs"),
    [("Nearest", "nearest"), ("NearestExact", "nearest-exact"), ("Bilinear", "bilinear"), ("Bicubic", "bicubic")],
)
def test_interpolate_is_torchs(mode: Any, torchs: str, align_corners: bool) -> None:
    x = images(1, 2, 5, 7)
    corners = None if torchs.startswith("nearest") else align_corners
    out = module.interpolate(x, [8, 3], InterpolateOptions(mode, align_corners=align_corners))
    torch.testing.assert_close(out.inner, F.interpolate(x.inner, (8, 3), mode=torchs, align_corners=corners))


def test_interpolate_takes_the_size_from_the_options() -> None:
    x = images(1, 2, 5, 7)
    options = InterpolateOptions("Bilinear")
    assert module.interpolate(x, options.with_output_size([4, 6])).dims() == (1, 2, 4, 6)
    assert module.interpolate(x, options.with_scale_factor([1.5, 2.0])).dims() == (1, 2, 7, 14)
    with pytest.raises(TensorValueError, match="use with_output_size or with_scale_factor"):
        module.interpolate(x, options)
    with pytest.raises(TensorValueError, match="expected at least 1, got 0"):
        module.interpolate(x, options.with_scale_factor(0.1))


def lanczos(distance: float) -> float:
    def sinc(t: float) -> float:
        return 1.0 if t == 0 else math.sin(math.pi * t) / (math.pi * t)

    return sinc(distance) * sinc(distance / 3) if abs(distance) < 3 else 0.0


@pytest.mark.parametrize("align_corners", [False, True])
def test_lanczos_weights_the_elements_inside_to_a_sum_of_one(align_corners: bool) -> None:
    x = row(2.0, -1.0, 5.0, 0.0, 3.0)
    image: Any = Tensor(x.inner[None], BACKEND)
    out = module.interpolate(image, [1, 7], InterpolateOptions("Lanczos3", align_corners=align_corners)).inner
    values = x.inner[0, 0].tolist()
    for i, found in enumerate(out[0, 0, 0].tolist()):
        place = i * 4 / 6 if align_corners else (i + 0.5) * 5 / 7 - 0.5
        weights = [lanczos(place - j) for j in range(5)]
        assert found == pytest.approx(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))


def test_lanczos_is_differentiable() -> None:
    def run(inner: torch.Tensor) -> torch.Tensor:
        x: Any = Tensor(inner, Autodiff(BACKEND))
        return module.interpolate(x, [5, 3], InterpolateOptions("Lanczos3")).inner

    assert torch.autograd.gradcheck(run, [torch.randn(1, 1, 3, 4, dtype=torch.float64, requires_grad=True)])


def test_windows_that_do_not_fit_are_refused() -> None:
    x = images(1, 1, 4, 4)
    with pytest.raises(TensorValueError, match="kernel_size: expected 2 numbers"):
        module.max_pool2d(x, MaxPoolOptions([1, 1, 1]))
    with pytest.raises(TensorValueError, match="Output size is too small"):
        module.avg_pool2d(x, AvgPoolOptions(5))
    wrong: Any = module.max_pool2d
    with pytest.raises(TensorTypeError, match="expected MaxPoolOptions"):
        wrong(x, [2, 2], [1, 1])
    with pytest.raises(TensorTypeError, match="expected MaxPoolOptions"):
        wrong(x, AvgPoolOptions(2))
    with pytest.raises(TensorTypeError, match="expected InterpolateOptions, got NoneType"):
        module.interpolate(x, *wrong_options())


def wrong_options() -> Any:
    return [None]
