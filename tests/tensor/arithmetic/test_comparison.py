import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

CPU = Cpu()
NAMES = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "lower": operator.lt,
    "lower_equal": operator.le,
}
NAN = float("nan")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8])
def test_comparisons_are_element_wise_and_broadcast(name: str, dtype: torch.dtype) -> None:
    a, b = torch.tensor([[1, 2, 3]]).to(dtype), torch.tensor([[2], [3]]).to(dtype)
    compare = NAMES[name]
    expected = compare(a, b)
    x, y = Tensor(a, CPU), Tensor(b, CPU)
    for out in (getattr(x, name)(y), getattr(x, name)(b), compare(x, y), compare(x, b)):
        assert out.inner.equal(expected)
        assert out.dtype is torch.bool
    for out in (getattr(x, f"{name}_elem")(2), getattr(x, f"{name}_scalar")(2), compare(x, 2)):
        assert out.inner.equal(compare(a, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [1.5, -0.5, 2.0, NAN, float("inf"), -float("inf")])
def test_an_int_tensor_beside_a_fraction_is_compared_with_the_fraction(name: str, number: float) -> None:
    inner = torch.tensor([-1, 0, 1, 2])
    x, expected = Tensor(inner, CPU), NAMES[name](inner.double(), number).tolist()
    assert NAMES[name](x, number).inner.tolist() == expected
    assert getattr(x, f"{name}_elem")(number).inner.tolist() == expected


def test_a_bool_tensor_equals_no_other_number_than_0_and_1() -> None:
    x = Tensor(torch.tensor([True, False]), CPU)
    assert [(x == number).inner.tolist() for number in (1, 0, 2, 0.5)] == [
        [True, False],
        [False, True],
        *[[False] * 2] * 2,
    ]
    assert (x != 2).inner.tolist() == [True, True]


def test_a_number_on_the_left() -> None:
    x = Tensor(torch.tensor([1.0, 2.0, 3.0]), CPU)
    assert operator.lt(2.0, x).inner.tolist() == [False, False, True]
    assert operator.eq(2.0, x).inner.tolist() == [False, True, False]


def test_nan_is_not_equal_to_itself() -> None:
    x = Tensor(torch.tensor([NAN, 1.0]), CPU)
    assert x.equal(x).inner.tolist() == [False, True]
    assert x.not_equal(x).inner.tolist() == [True, False]


def test_bool_tensors_have_equality_only() -> None:
    x = Tensor(torch.tensor([True, False]), CPU)
    assert (x == Tensor(torch.tensor([True, True]), CPU)).inner.tolist() == [True, False]
    assert x.not_equal_elem(True).inner.tolist() == [False, True]
    for name in ("greater", "greater_equal", "lower", "lower_equal"):
        with pytest.raises(TensorTypeError, match="not defined for Bool"):
            getattr(x, name)(x)
        with pytest.raises(TensorTypeError, match="not defined for Bool"):
            getattr(x, f"{name}_elem")(True)


@pytest.mark.parametrize("name", NAMES)
def test_operands_that_do_not_fit_are_refused(name: str) -> None:
    x = Tensor(torch.zeros(2, 3), CPU)
    compare: Callable[..., object] = getattr(x, name)
    with pytest.raises(TensorValueError, match=r"shape \[2, 3\], shape \[2, 2\]"):
        compare(torch.zeros(2, 2))
    with pytest.raises(TensorTypeError, match="different ranks"):
        compare(torch.zeros(3))
    with pytest.raises(TensorTypeError, match="different kinds"):
        compare(torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(TensorTypeError, match="different element types"):
        compare(torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(TensorTypeError, match="different backends"):
        compare(Tensor(torch.zeros(2, 3), Autodiff(CPU)))
    with pytest.raises(TensorTypeError, match="got str"):
        compare("a")
    with pytest.raises(TensorTypeError, match="got Tensor"):
        getattr(x, f"{name}_elem")(x)


def test_numbers_outside_of_the_element_type_are_refused() -> None:
    for dtype, number in [(torch.int32, 2**32 + 1), (torch.uint8, -1), (torch.int64, 2**63)]:
        x = Tensor(torch.tensor([1, 2]).to(dtype), CPU)
        for compare in (x.equal, x.greater_elem, x.__lt__):
            with pytest.raises(TensorValueError, match=f"{number} is outside of"):
                compare(number)


def test_what_is_no_tensor_and_no_number_is_not_equal_as_a_whole() -> None:
    x = Tensor(torch.zeros(2), CPU)
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    with pytest.raises(TensorTypeError, match="got NoneType"):
        operator.lt(x, None)


@pytest.mark.parametrize("number", [True, 1, 1.5, NAN])
@pytest.mark.parametrize(
    "tensor", [torch.tensor([0.0, 1.0, 1.5]), torch.tensor([0, 1, 2]), torch.tensor([True, False])]
)
def test_numpys_numbers_compare_as_pythons_do(tensor: torch.Tensor, number: Any) -> None:
    x: Any = Tensor(tensor, CPU)
    for boxed in (np.array(number), np.bool_(number), np.float32(number)):
        plain = boxed.item()
        for compare in (operator.eq, operator.ne):
            assert compare(x, boxed).inner.equal(compare(x, plain).inner)
    if tensor.dtype is not torch.bool:
        assert (x > np.float32(number)).inner.equal((x > number).inner)
        assert x.lower_elem(np.float32(number)).inner.equal(x.lower_elem(number).inner)


def test_tensors_are_hashed_by_identity() -> None:
    x, y = Tensor(torch.zeros(2), CPU), Tensor(torch.zeros(2), CPU)
    assert {x: 1, y: 2}[x] == 1
    assert hash(x) == object.__hash__(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.uint8, torch.bool])
def test_any_and_all_reduce_to_one_element(dtype: torch.dtype) -> None:
    for shape in ((4,), (2, 2)):
        for numbers in ([0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]):
            inner = torch.tensor(numbers).to(dtype).reshape(shape)
            x = Tensor(inner, CPU)
            assert x.any().inner.tolist() == [any(numbers)]
            assert x.all().inner.tolist() == [all(numbers)]
            assert x.any().dtype is x.all().dtype is torch.bool
            assert x.any_dim(-1).inner.equal(inner.bool().any(-1, keepdim=True))
            assert x.all_dim(0).inner.equal(inner.bool().all(0, keepdim=True))


def test_nan_counts_as_not_zero_and_nothing_as_all() -> None:
    assert Tensor(torch.tensor([0.0, NAN]), CPU).any().inner.tolist() == [True]
    empty = Tensor(torch.zeros(2, 0), CPU)
    assert empty.all().inner.tolist() == [True]
    assert empty.any().inner.tolist() == [False]
    assert empty.all_dim(1).inner.tolist() == [[True], [True]]


def test_reductions_refuse_dimensions_that_do_not_exist() -> None:
    x = Tensor(torch.zeros(2, 3), CPU)
    with pytest.raises(TensorValueError, match="Any Dim"):
        x.any_dim(2)
    with pytest.raises(TensorValueError, match="All Dim"):
        x.all_dim(-3)
