"""Bitwise functions of Int tensors."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch

from burnlike import Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

from ..made import ints, typed

BITWISE: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_left_shift": operator.lshift,
    "bitwise_right_shift": operator.rshift,
}
LEFT, RIGHT = [13, 7, -9, 0], [3, 1, 2, 5]


@pytest.mark.parametrize("name", BITWISE)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16])
def test_bits_of_two_tensors_and_of_a_scalar(name: str, dtype: torch.dtype) -> None:
    function = BITWISE[name]
    result = getattr(ints(LEFT, dtype), name)(ints(RIGHT, dtype))
    assert result.inner.tolist() == [function(x, y) for x, y in zip(LEFT, RIGHT, strict=True)]
    assert result.dtype is dtype
    scalar = getattr(ints(LEFT, dtype), f"{name}_scalar")(2)
    assert scalar.inner.tolist() == getattr(ints(LEFT, dtype), name)(2).inner.tolist() == [function(x, 2) for x in LEFT]


def test_not_inverts_all_bits() -> None:
    assert ints([0, 5, -3]).bitwise_not().inner.tolist() == [-1, -6, 2]
    assert ints([1], torch.uint8).bitwise_not().inner.tolist() == [254]


def test_square_stays_int() -> None:
    assert ints([-3, 4], torch.int8).square().inner.tolist() == [9, 16]


@pytest.mark.parametrize("name", BITWISE)
def test_other_kinds_and_shapes_are_refused(name: str) -> None:
    with pytest.raises(TensorTypeError, match="not defined for Float tensors"):
        getattr(Tensor(torch.ones(2), Cpu()), name)(1.0)
    with pytest.raises(TensorTypeError, match="not defined for Bool tensors"):
        getattr(Tensor(torch.ones(2, dtype=torch.bool), Cpu()), name)(True)
    with pytest.raises(TensorValueError, match="Bitwise"):
        getattr(ints([1, 2]), name)(ints([1, 2, 3]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_division_by_a_tensor_truncates_and_wraps(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    minus = -1 if dtype.is_signed else info.max
    left, right = [info.min, info.max, 7, info.min, 0], [minus, minus, 2, 3, minus]
    wanted = [math.trunc(Fraction(x, y)) for x, y in zip(left, right, strict=True)]
    wanted[0] = info.min if dtype.is_signed else 0  # the smallest / -1 is beyond the type, and ended the process
    x, y = ints(left, dtype), ints(right, dtype)
    for found in (x / y, x.div(y), x.div(y.inner), typed(torch.stack([x.inner] * 2)).div(y.unsqueeze(2))):
        assert found.inner.flatten()[:5].tolist() == wanted
        assert found.dtype is dtype
    if dtype.is_signed:
        broadcast = typed(torch.tensor([[info.min], [6]], dtype=dtype)).div(typed(torch.tensor([[-1]], dtype=dtype)))
        assert broadcast.inner.tolist() == [[info.min], [-6]]
        assert ints(left, dtype).div_scalar(-1).inner.tolist()[0] == info.min
    with pytest.raises(TensorValueError, match="can't be divided by zero"):
        x / ints([1, 1, 0, 1, 1], dtype)


def wrapped(number: int, dtype: torch.dtype) -> int:
    info = torch.iinfo(dtype)
    return (number - info.min) % 2**info.bits + info.min


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_shifts_are_modulo_the_bits(dtype: torch.dtype) -> None:
    bits = torch.iinfo(dtype).bits
    amounts = [
        0,
        1,
        bits - 1,
        bits,
        bits + 1,
        127 if dtype.is_signed else 255,
        *([-1, -bits] if dtype.is_signed else []),
    ]
    numbers = [1, 5, 100, *([-8, -1] if dtype.is_signed else [])]
    for amount in amounts:
        within = amount % bits
        left = [wrapped(x << within, dtype) for x in numbers]
        right = [x >> within for x in numbers]
        shifted = ints(numbers, dtype)
        others = ints([amount] * len(numbers), dtype)
        for other in (others, others.inner):
            assert shifted.bitwise_left_shift(other).inner.tolist() == left
            assert shifted.bitwise_right_shift(other).inner.tolist() == right
        assert shifted.bitwise_left_shift_scalar(amount).inner.tolist() == left
        assert shifted.bitwise_right_shift_scalar(amount).inner.tolist() == right


def test_division_and_shifts_are_the_same_in_a_graph_and_under_vmap() -> None:
    left, right = torch.tensor([-(2**63), 7, -9]), torch.tensor([-1, 2, 64])

    def calculated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first, second = Tensor(x, Cpu()), Tensor(y, Cpu())
        return (first / second).add(first.bitwise_right_shift(second)).inner

    wanted = calculated(left, right)
    assert wanted.tolist() == [-(2**63) - 1 + 2**64, 3 + 1, 0 - 9]
    assert torch.equal(torch.compile(calculated, backend="eager", fullgraph=True)(left, right), wanted)
    assert torch.equal(torch.func.vmap(calculated)(left[:, None], right[:, None]).flatten(), wanted)
