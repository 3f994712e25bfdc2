import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ArgumentError, AutodiffError, DeviceError, DTypeError, ShapeError
from burnlike.ops import gradient_squares_, native_status

from .test_cuda_kernels import CHUNK, MANY, Kernels, kernels

__all__ = ["kernels"]

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def squares_of(*grads: Tensor) -> Tensor:
    squares = torch.full((len(grads),), torch.nan, dtype=torch.float64, device=grads[0].device if grads else None)
    gradient_squares_(grads, squares)
    return squares


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_of_squares_in_float64(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    grads = [torch.randn(shape).to(dtype) for shape in ((), (0,), (3, 41), (4096,), (4097,), (9, 7, 700))]
    grads.append(torch.randn(30, 50).to(dtype).t())
    expected = [grad.double().square().sum().item() for grad in grads]
    torch.testing.assert_close(squares_of(*grads), torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0)


def test_same_bits_alone_and_beside_others() -> None:
    torch.manual_seed(0)
    grads = [torch.randn(size) for size in (5, 70_000, 0, 9000)]
    together = squares_of(*grads)
    assert together.tolist() == [squares_of(grad).item() for grad in grads]


def test_float32_neither_overflows_nor_loses_small_values() -> None:
    assert squares_of(torch.tensor([3e30, 4e30])).item() == pytest.approx(25e60, rel=1e-6)
    assert squares_of(torch.tensor([1e-40])).item() == pytest.approx(1e-80, rel=1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_value_that_is_not_finite_shows_in_its_gradient_only(dtype: torch.dtype, value: float) -> None:
    grads = [torch.ones(5000, dtype=dtype) for _ in range(3)]
    grads[1][4999] = value
    assert squares_of(*grads).isfinite().tolist() == [True, False, True]


def test_calls_are_counted_and_versions_bumped() -> None:
    before = native_status().calls["gradient_squares_"]
    squares = torch.zeros(1, dtype=torch.float64)
    gradient_squares_([torch.ones(3)], squares)
    assert native_status().calls["gradient_squares_"] == before + 1
    assert squares._version == 1


def test_no_gradients() -> None:
    assert squares_of().shape == (0,)


def test_bad_input() -> None:
    grads = [torch.ones(3), torch.ones(4)]
    squares = torch.full((2,), 7.0, dtype=torch.float64)
    with pytest.raises(ShapeError, match=r"squares of shape \[2\], got \[1\]"):
        gradient_squares_(grads, squares[:1])
    with pytest.raises(DTypeError, match="squares of dtype float64, got float32"):
        gradient_squares_(grads, squares.float())
    with pytest.raises(DTypeError, match=r"grads\[1\] of dtype .*, got int32"):
        gradient_squares_([grads[0], grads[1].int()], squares)
    with pytest.raises(DeviceError, match=r"grads\[1\] on cpu, got meta"):
        gradient_squares_([grads[0], grads[1].to("meta")], squares)
    with pytest.raises(ArgumentError, match="squares to be contiguous"):
        gradient_squares_(grads, squares.repeat_interleave(2)[::2])
    with pytest.raises(AutodiffError, match=r"gradient_squares_: .* requires grad.*torch.no_grad\(\)"):
        gradient_squares_(grads, nn.Parameter(squares))
    assert squares.tolist() == [7.0, 7.0]


def test_on_cuda_sums_of_many_gradients_are_the_same_alone(kernels: Kernels) -> None:
    torch.manual_seed(0)
    grads = [torch.randn(size) for (size,) in MANY] + [torch.randn(5 * CHUNK + 3)[3:], torch.randn(9, 7).t()]

    together = kernels.run(squares_of, *grads)
    expected = torch.stack([grad.double().square().sum() for grad in grads])
    torch.testing.assert_close(together, expected, rtol=1e-13, atol=0)
    assert together[-2:].tolist() == [kernels.run(squares_of, grad).item() for grad in grads[-2:]]


# By the numbers that float32 has squares of, and beyond.
@pytest.mark.parametrize("size", [1.0, 1e-13, 1e-25, 1e-30, 1e18, 1e25], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_on_cuda_sums_of_any_size_are_those_of_float64_wherever_the_values_lie(
    dtype: torch.dtype, size: float, kernels: Kernels
) -> None:
    torch.manual_seed(0)
    values = (torch.randn(CHUNK + 2051) * size).to(dtype)
    values[5:4000] = 0  # as rows of words that no text had

    def squares(*grads: Tensor) -> Tensor:
        apart = torch.empty(values.numel() + 1, dtype=dtype, device=grads[0].device)[1:].copy_(grads[0])
        found = torch.zeros(2, dtype=torch.float64, device=apart.device)
        gradient_squares_([grads[0], apart], found)
        return found

    aligned, apart = kernels.run(squares, values).tolist()
    assert aligned == apart
    assert aligned == pytest.approx(values.double().square().sum().item(), rel=1e-14)
