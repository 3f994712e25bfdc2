"""Cases of arithmetic, comparison and shapes."""

import asyncio
import math
from typing import Any

import torch

from burnlike import Float, Int, Tensor
from burnlike.tensor import Distribution

from .api_cases import Pairs, bools, case, double, floats, ints

POINTS = [-0.75, -0.5, 0.0, 0.25, 0.5]


def unary(name: str, points: list[float]) -> None:
    """A case for a Float method that torch has under the same name."""

    @case(name)
    def run(backend: Any) -> Pairs:
        return [(getattr(floats(points, backend), name)(), getattr(torch, name)(double(points)))]


for method in ("log1p", "acos", "atan", "floor"):
    unary(method, POINTS)


@case("atan2")
def atan2(backend: Any) -> Pairs:
    y, x = [1.0, -1.0, 0.0, 2.0], [0.0, -1.0, -1.0, 2.0]
    return [(floats(y, backend).atan2(floats(x, backend)), [math.pi / 2, -0.75 * math.pi, math.pi, math.pi / 4])]


@case("dot")
def dot(backend: Any) -> Pairs:
    return [
        (floats([1.0, 2.0, 3.0], backend).dot(floats([4.0, -5.0, 6.0], backend)), [12.0]),
        (ints([1, 2], backend).dot(ints([3, 4], backend)), [11]),
    ]


@case("square (Int)")
def square_of_ints(backend: Any) -> Pairs:
    return [(ints([-3, 0, 4], backend).square(), [9, 0, 16])]


@case("square (Float)")
def square_of_floats(backend: Any) -> Pairs:
    return [(floats([-1.5, 2.0], backend).square(), [2.25, 4.0])]


@case("min_pair")
def min_pair(backend: Any) -> Pairs:
    return [
        (floats([1.0, 5.0], backend).min_pair(floats([3.0, 2.0], backend)), [1.0, 2.0]),
        (ints([1, 5], backend).min_pair(ints([3, 2], backend)), [1, 2]),
    ]


@case("einsum")
def einsum(backend: Any) -> Pairs:
    a, b = [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]
    x, y = floats(a, backend), floats(b, backend)
    return [
        (Tensor.einsum("ij,jk->ik", [x, y]), [[19.0, 22.0], [43.0, 50.0]]),
        (Tensor.einsum("ij,ij", [x, y]), [70.0]),
        (Tensor.einsum("ii->i", [ints([[1, 2], [3, 4]], backend)]), [1, 4]),
    ]


@case(
    "equal_scalar", "not_equal_scalar", "greater_scalar", "greater_equal_scalar", "lower_scalar", "lower_equal_scalar"
)
def comparisons(backend: Any) -> Pairs:
    x, n = floats([1.0, 2.0, 3.0], backend), ints([1, 2, 3], backend)
    return [
        (x.equal_scalar(2.0), [False, True, False]),
        (x.not_equal_scalar(2.0), [True, False, True]),
        (x.greater_scalar(2.0), [False, False, True]),
        (x.greater_equal_scalar(2.0), [False, True, True]),
        (x.lower_scalar(2.0), [True, False, False]),
        (x.lower_equal_scalar(2.0), [True, True, False]),
        (n.equal_scalar(2), [False, True, False]),
        (n.lower_scalar(2), [True, False, False]),
        (bools([True, False], backend).equal_scalar(True), [True, False]),
    ]


@case("bitwise_or_scalar")
def bitwise_or_scalar(backend: Any) -> Pairs:
    return [(ints([1, 2, 4, -8], backend).bitwise_or_scalar(5), [5, 7, 5, -3])]


@case("bitwise_left_shift")
def bitwise_left_shift(backend: Any) -> Pairs:
    return [(ints([1, 3, -2], backend).bitwise_left_shift(ints([4, 1, 3], backend)), [16, 6, -16])]


@case("full_like")
def full_like(backend: Any) -> Pairs:
    return [
        (floats([[1.0, 2.0]], backend).full_like(2.5), [[2.5, 2.5]]),
        (ints([1, 2], backend).full_like(7), [7, 7]),
        (bools([False, False], backend).full_like(True), [True, True]),
    ]


@case("empty", "empty_like")
def empty(backend: Any) -> Pairs:
    made = Tensor.empty((2, 3), backend, kind=Int)
    return [
        (made.dims(), (2, 3)),
        (made.spec.kind, Int),
        (floats([[1.0], [2.0]], backend).empty_like().dims(), (2, 1)),
    ]


@case("from")
def from_lists(backend: Any) -> Pairs:
    return [
        (Tensor.from_data([[1.5, -2.0]], backend), [[1.5, -2.0]]),
        (Tensor.from_data([1, 2], backend, kind=Int), [1, 2]),
    ]


@case("from_floats", "from_ints", "from_bool")
def from_numbers(backend: Any) -> Pairs:
    return [
        (Tensor.from_floats([[1.5, -2.0], [0.0, 3.0]], backend), [[1.5, -2.0], [0.0, 3.0]]),
        (Tensor.from_ints([3, -4], backend), [3, -4]),
        (Tensor.from_bool([True, False], backend), [True, False]),
    ]


@case("random")
def random(backend: Any) -> Pairs:
    # What follows for certain: a constant, and the bounds.
    spread = Tensor.random((2, 500), Distribution.Uniform(-1.0, 3.0), backend)
    wide = Tensor.random((1000,), Distribution.Default, backend, kind=Int)
    return [
        (Tensor.random((3,), Distribution.Bernoulli(1.0), backend), [1.0, 1.0, 1.0]),
        (Tensor.random((2,), Distribution.Normal(4.0, 0.0), backend), [4.0, 4.0]),
        (spread.greater_equal_elem(-1.0).all(), [True]),
        (spread.lower_elem(3.0).all(), [True]),
        (spread.lower_elem(0.0).any(), [True]),
        (wide.greater_equal_elem(0).all(), [True]),
        (wide.lower_elem(255).all(), [True]),
        (spread.spec.kind, Float),
    ]


@case("t")
def t(backend: Any) -> Pairs:
    data = [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]
    return [(floats(data, backend).t(), [[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]])]


@case("roll_dim")
def roll_dim(backend: Any) -> Pairs:
    return [
        (ints([0, 1, 2, 3, 4], backend).roll_dim(1, 0), [4, 0, 1, 2, 3]),
        (floats([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], backend).roll_dim(-1, 1), [[1.0, 2.0, 0.0], [4.0, 5.0, 3.0]]),
        (bools([True, False, False], backend).roll_dim(5, -1), [False, False, True]),
    ]


@case("flatten", "squeeze", "squeeze_dim", "unsqueeze_dims")
def shapes(backend: Any) -> Pairs:
    x = floats([[[1.0, 2.0]], [[3.0, 4.0]]], backend)
    return [
        (x.flatten(0, 1), [[1.0, 2.0], [3.0, 4.0]]),
        (x.flatten(0, 2), [1.0, 2.0, 3.0, 4.0]),
        (x.squeeze(), [[1.0, 2.0], [3.0, 4.0]]),
        (x.squeeze_dim(1), [[1.0, 2.0], [3.0, 4.0]]),
        (ints([5, 6], backend).unsqueeze_dims([0, -1]), [[[5], [6]]]),
    ]


@case("mask_select_async", "nonzero_async", "argwhere_async")
def awaited(backend: Any) -> Pairs:
    x, mask = floats([1.0, 2.0, 3.0], backend), bools([True, False, True], backend)
    places = asyncio.run(mask.nonzero_async())
    return [
        (asyncio.run(x.mask_select_async(mask)), [1.0, 3.0]),
        (len(places), 1),
        (places[0], [0, 2]),
        (asyncio.run(mask.argwhere_async()), [[0], [2]]),
    ]


@case("__add__/__sub__/__mul__/__truediv__/__mod__/__neg__")
def operators(backend: Any) -> Pairs:
    x, y = floats([7.0, -7.0], backend), floats([2.0, 4.0], backend)
    n = ints([7, -7], backend)
    return [
        (x + y, [9.0, -3.0]),
        (x - y, [5.0, -11.0]),
        (x * y, [14.0, -28.0]),
        (x / y, [3.5, -1.75]),
        (x % y, [1.0, 1.0]),
        (-x, [-7.0, 7.0]),
        (n + 1, [8, -6]),
        (n % 3, [1, 2]),
        (-n, [-7, 7]),
    ]


@case("__radd__/__rsub__/__rmul__", "__rtruediv__")
def reflected(backend: Any) -> Pairs:
    x, n = floats([2.0, 4.0], backend), ints([2, 4], backend)
    return [
        (1.0 + x, [3.0, 5.0]),
        (1.0 - x, [-1.0, -3.0]),
        (3.0 * x, [6.0, 12.0]),
        (1.0 / x, [0.5, 0.25]),
        (1 + n, [3, 5]),
        (1 - n, [-1, -3]),
        (3 * n, [6, 12]),
    ]


@case("int (Float)", "int (Bool)", "float (Int)", "float (Bool)", "cast (Float)", "cast (Int)", "cast (Bool)")
def conversions(backend: Any) -> Pairs:
    x, n, b = floats([1.7, -1.7], backend), ints([1, -2], backend), bools([True, False], backend)
    return [
        (x.int(), [1, -1]),
        (b.int(), [1, 0]),
        (n.float(), [1.0, -2.0]),
        (b.float(), [1.0, 0.0]),
        (x.cast(torch.float64), double([1.7, -1.7]).float().double()),
        (x.cast(torch.int32), torch.tensor([1, -1], dtype=torch.int32)),
        (n.cast(torch.float32), [1.0, -2.0]),
        (b.cast(torch.int64), [1, 0]),
    ]
