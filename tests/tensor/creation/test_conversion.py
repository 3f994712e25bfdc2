"""Kinds and element types: who may become what."""

import math
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from burnlike import Autodiff, Bool, Cpu, Float, Int, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import Distribution
from burnlike.tensor.core.dtypes import DType, FloatDType, IntDType

HALF = Cpu(float=torch.bfloat16, int=torch.int32)


def tensor(data: Any, dtype: torch.dtype | None = None, backend: Any = None) -> Any:
    return Tensor(torch.tensor(data, dtype=dtype), backend or Cpu())


def test_kinds_take_the_backends_element_types() -> None:
    x = tensor([[0.0, -1.7, 2.9]], torch.float32, HALF)
    assert x.int().inner.tolist() == [[0, -1, 2]]
    assert (x.int().dtype, x.int().spec.kind) == (torch.int32, Int)
    assert (x.bool().int().dtype, x.bool().float().dtype) == (torch.int32, torch.bfloat16)
    assert x.int().float().dtype is torch.bfloat16
    assert x.bool().spec.kind is Bool


def test_bool_is_what_is_not_zero() -> None:
    assert tensor([0.0, -0.0, 0.1, math.nan]).bool().inner.tolist() == [False, False, True, True]
    assert tensor([0, -4]).bool().inner.tolist() == [False, True]


@pytest.mark.parametrize(("data", "name"), [([1.0], "float"), ([1], "int"), ([True], "bool")])
def test_a_tensor_is_not_converted_to_its_own_kind(data: list[Any], name: str) -> None:
    with pytest.raises(TensorTypeError, match=f"is {name.capitalize()} already"):
        getattr(tensor(data), name)()


@pytest.mark.parametrize("data", [[1.0, 0.0], [1, 0], [True, False]])
@pytest.mark.parametrize("target", [FloatDType.F16, IntDType.U8, torch.int16, "bf16", "I64"])
def test_cast_follows_its_argument(data: list[Any], target: Any) -> None:
    named = {"bf16": torch.bfloat16, "I64": torch.int64, torch.int16: torch.int16}
    expected = named.get(target) or target.value
    result = tensor(data).cast(target)
    assert result.dtype is expected
    assert result.spec.kind is (Float if expected.is_floating_point else Int)
    assert result.inner.tolist() == [1, 0]


def test_a_cast_to_a_dtype_stays_in_the_kind() -> None:
    assert tensor([1.9]).cast(DType.F64).dtype is torch.float64
    assert tensor([1]).cast(DType.I8).dtype is torch.int8
    for data, wanted in [([1.0], DType.I32), ([1], DType.F32), ([True], DType.F32)]:
        with pytest.raises(TensorTypeError, match="expected an element type of"):
            tensor(data).cast(wanted)


def test_the_same_element_type_is_the_tensor_itself() -> None:
    x = tensor([1.0, 2.0])
    assert x.cast(DType.F32) is x.cast(torch.float32) is x.cast("f32") is x


def test_cast_to_bool_and_complex_are_refused() -> None:
    for wanted in (torch.bool, "bool", DType.BOOL):
        with pytest.raises(TensorTypeError, match=r"use bool\(\)"):
            tensor([1.0]).cast(wanted)
    with pytest.raises(TensorTypeError, match=r"'Cast'"):
        tensor([1.0]).cast(torch.complex64)
    with pytest.raises((TensorTypeError, TensorValueError), match="bf16"):
        tensor([1.0]).cast("bf61")


def test_cast_is_differentiable_between_floats() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    Tensor(x, Autodiff(Cpu())).cast("bf16").mul(3.0).inner.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is torch.float32
    assert x.grad.tolist() == [3.0, 3.0]


def test_full_precision_and_back() -> None:
    backend = Autodiff(HALF)
    x = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    wide: Any = Tensor(x, backend).to_full_precision()
    assert wide.dtype is torch.float32
    assert wide.backend == backend.full_precision()
    back: Any = Tensor.from_full_precision(wide.mul(2.0), backend)
    assert back.dtype is torch.bfloat16
    assert back.backend == backend
    back.inner.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_full_precision_keeps_float64_and_needs_the_right_backend() -> None:
    assert tensor([1.0], torch.float64).to_full_precision().dtype is torch.float64
    with pytest.raises(TensorTypeError, match="expected a tensor on Cpu"):
        Tensor.from_full_precision(tensor([1.0], torch.bfloat16, HALF), HALF)
    with pytest.raises(TensorTypeError, match="expected a Float tensor"):
        tensor([1]).to_full_precision()


def test_the_truth_of_a_tensor_is_that_of_its_only_element() -> None:
    assert bool(tensor([2.0]))
    assert not bool(tensor([[0]]))
    assert bool(tensor([True]))
    with pytest.raises(TensorValueError, match=r"shape \[2\] has no single truth"):
        bool(tensor([True, False]))


BEYOND = [-1.5, 300.0, math.nan, math.inf, -math.inf, 3e9, -3e9, 1e19, 1.9e19, -1e19, 2.0**63, 254.9, -0.9, 127.5, 7.0]


def saturated(values: list[float], dtype: torch.dtype) -> list[int]:
    info = torch.iinfo(dtype)
    return [0 if x != x else info.max if x > info.max else info.min if x < info.min else int(x) for x in values]


@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("target", [member.value for member in IntDType])
def test_floats_beyond_an_int_type_become_its_ends_and_nan_0(source: torch.dtype, target: torch.dtype) -> None:
    x = torch.tensor(BEYOND, dtype=torch.float64).to(source)
    wanted = saturated(x.tolist(), target)
    assert Tensor(x, Cpu()).cast(target).inner.tolist() == wanted
    assert Tensor(x[:1], Cpu()).cast(target).inner.tolist() == wanted[:1]
    assert Tensor(x[:0], Cpu()).cast(target).inner.tolist() == []
    inside = torch.tensor([0.0, 1.7, 100.5]).to(source)
    assert Tensor(inside, Cpu()).cast(target).inner.tolist() == [0, 1, 100]


def test_all_ways_to_an_int_tensor_saturate() -> None:
    x = torch.tensor(BEYOND)
    wanted = saturated(x.tolist(), torch.int64)
    assert Tensor(x, Cpu()).int().inner.tolist() == wanted
    assert Tensor(x, Cpu(int=torch.int8)).int().inner.tolist() == saturated(x.tolist(), torch.int8)
    drawn = Tensor.random((1000,), Distribution.Uniform(-400.0, 400.0), Cpu(), kind=Int, dtype=torch.uint8).inner
    assert drawn.min() == 0
    assert (drawn == 255).sum() > 100


def test_a_cast_is_the_same_in_a_graph_and_under_vmap() -> None:
    x = torch.tensor(BEYOND)
    wanted = saturated(x.tolist(), torch.uint8)

    def narrow(values: torch.Tensor) -> torch.Tensor:
        return Tensor(values, Cpu()).cast(torch.uint8).inner

    assert torch.compile(narrow, backend="eager", fullgraph=True)(x).tolist() == wanted
    assert torch.func.vmap(narrow)(x.reshape(-1, 1)).flatten().tolist() == wanted
    with FakeTensorMode():
        assert narrow(torch.empty(3)).shape == (3,)
