"""Element-wise functions of Float tensors against torch in float64."""

import math
from typing import Any

import pytest
import torch

from burnlike import Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

from ..made import floats

# name -> torch's, and values inside of the domain
UNARY: dict[str, tuple[Any, list[float]]] = {
    "exp": (torch.exp, [-2.0, 0.0, 3.5]),
    "log": (torch.log, [0.25, 1.0, 30.0]),
    "log1p": (torch.log1p, [1e-6, -0.5, 4.0]),
    "sqrt": (torch.sqrt, [0.0, 2.0, 81.0]),
    "recip": (torch.reciprocal, [0.5, -3.0, 8.0]),
    "erf": (torch.erf, [-1.0, 0.1, 2.0]),
    "round": (torch.round, [0.5, 1.5, -2.5, 2.4]),
    "floor": (torch.floor, [-1.5, 1.5]),
    "ceil": (torch.ceil, [-1.5, 1.5]),
    "trunc": (torch.trunc, [-1.5, 1.5]),
    "cos": (torch.cos, [-1.0, 0.0, 2.0]),
    "sin": (torch.sin, [-1.0, 0.0, 2.0]),
    "tan": (torch.tan, [-1.0, 0.0, 1.2]),
    "cosh": (torch.cosh, [-1.0, 0.0, 2.0]),
    "sinh": (torch.sinh, [-1.0, 0.0, 2.0]),
    "tanh": (torch.tanh, [-1.0, 0.0, 2.0]),
    "acos": (torch.acos, [-0.9, 0.0, 1.0]),
    "asin": (torch.asin, [-0.9, 0.0, 1.0]),
    "atan": (torch.atan, [-9.0, 0.0, 1.0]),
    "acosh": (torch.acosh, [1.0, 2.0, 9.0]),
    "asinh": (torch.asinh, [-1.0, 0.0, 9.0]),
    "atanh": (torch.atanh, [-0.9, 0.0, 0.5]),
    "deg2rad": (torch.deg2rad, [0.0, 90.0, -360.0]),
    "rad2deg": (torch.rad2deg, [0.0, 1.0, -3.0]),
    "square": (torch.square, [-3.0, 0.5]),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_functions_of_one_tensor(name: str, dtype: torch.dtype) -> None:
    function, values = UNARY[name]
    x = torch.tensor(values, dtype=dtype)
    result = getattr(Tensor(x, Cpu()), name)()
    assert result.dtype is dtype
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-14, torch.bfloat16: 1e-2}[dtype]
    torch.testing.assert_close(result.inner.double(), function(x.double()), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [*sorted(set(UNARY) - {"square"}), "is_nan", "is_inf", "is_finite", "contains_nan"])
def test_int_tensors_are_not_promoted(name: str) -> None:
    with pytest.raises(TensorTypeError, match="not defined for Int tensors"):
        getattr(Tensor(torch.tensor([1, 2]), Cpu()), name)()


@pytest.mark.parametrize("name", ["powf", "fmod", "atan2", "hypot"])
def test_functions_of_two_tensors(name: str) -> None:
    x, y = torch.tensor([[1.5, 2.0, 7.5]]), torch.tensor([[2.0], [-3.0]])
    function = {"powf": torch.pow}.get(name) or getattr(torch, name)
    result = getattr(Tensor(x, Cpu()), name)(Tensor(y, Cpu()))
    torch.testing.assert_close(result.inner.double(), function(x.double(), y.double()), rtol=1e-6, atol=1e-6)
    with pytest.raises(TensorValueError, match=f"'{name.capitalize()}'"):
        getattr(floats([1.0, 2.0]), name)(floats([1.0, 2.0, 3.0]))
    with pytest.raises(TensorTypeError, match="different ranks"):
        getattr(floats([1.0, 2.0]), name)(floats([[1.0, 2.0]]))


def test_fmod_has_the_sign_of_the_dividend() -> None:
    assert floats([5.5, -5.5]).fmod_scalar(2.0).inner.tolist() == [1.5, -1.5]
    result = floats([5.5, math.inf, -math.inf]).fmod_scalar(math.inf).inner
    assert result[0] == 5.5
    assert result[1:].isnan().all()


def test_atan2_and_hypot_take_no_scalar() -> None:
    with pytest.raises(TensorTypeError, match=r"'Hypot'[\s\S]*got float"):
        floats([1.0]).hypot(1.0)
    with pytest.raises(TensorTypeError, match=r"'Atan2'[\s\S]*got float"):
        floats([1.0]).atan2(1.0)


def test_hypot_does_not_overflow() -> None:
    assert floats([3e38]).hypot(floats([0.0])).inner.tolist() == floats([3e38]).inner.tolist()


def test_powers_with_numbers() -> None:
    assert floats([-2.0]).powf_scalar(2.0).inner.tolist() == [4.0]
    assert floats([-2.0]).powf_scalar(0.5).inner.isnan().all()
    assert floats([9.0]).powf(0.5).inner.tolist() == [3.0]


def test_nan_and_infinities_are_found() -> None:
    x = floats([0.0, math.nan, math.inf, -math.inf])
    assert x.is_nan().inner.tolist() == [False, True, False, False]
    assert x.is_inf().inner.tolist() == [False, False, True, True]
    assert x.is_finite().inner.tolist() == [True, False, False, False]
    assert x.contains_nan().inner.tolist() == [True]
    assert floats([[math.inf], [-math.inf]]).contains_nan().inner.tolist() == [False]
    assert x.is_nan().spec is x.spec.bool


def test_closeness_is_relative_to_the_other() -> None:
    x = floats([1.0, 1.0, math.inf, math.inf, math.nan])
    y = floats([1.0 + 1e-6, 1.1, math.inf, -math.inf, math.nan])
    assert x.is_close(y).inner.tolist() == [True, False, True, False, False]
    assert x.is_close(y, rtol=0.2).inner.tolist() == [True, True, True, False, False]
    assert x.is_close(y, None, 0.2).inner.tolist() == [True, True, True, False, False]
    assert x.all_close(y) is False
    assert floats([1.0]).all_close(floats([1.0 + 1e-6])) is True
    with pytest.raises(TensorValueError, match="'Is Close'"):
        x.is_close(floats([1.0, 2.0]))


def test_autocast_may_change_the_element_type() -> None:
    x = floats([[1.0, 2.0], [3.0, 4.0]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = x.matmul(x)
        assert product.dtype is torch.bfloat16
        assert product.add(x).dtype is torch.float32
