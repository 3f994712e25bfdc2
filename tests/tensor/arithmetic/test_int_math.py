"""Bitwise functions of Int tensors."""

import operator
from collections.abc import Callable

import pytest
import torch

from burnlike import Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

from ..made import ints

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
