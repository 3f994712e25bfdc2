"""Reading tensors back to the host, and the forms that return the error instead of raising it."""

from typing import Any, assert_type

import torch

from burnlike import D1, D2, Bool, Cpu, Float, Int, Tensor
from burnlike.errors import TensorError
from burnlike.tensor import QTensor, QuantScheme, TensorData, Transaction


def read(x: Tensor[Cpu, D2], n: Tensor[Cpu, D1, Int], b: Tensor[Cpu, D1, Bool]) -> None:
    assert_type(x.to_data(), TensorData)
    assert_type(x.into_scalar(), float)
    assert_type(n.into_scalar(), int)
    assert_type(b.into_scalar(), bool)
    assert_type(x.try_into_data(), TensorData | TensorError)
    assert_type(n.try_into_scalar(), int | TensorError)
    assert_type(Transaction.default().register(x).register(n).execute(), list[TensorData])


def read_as(x: Tensor[Cpu, D2], element: torch.dtype) -> None:
    assert_type(x.to_data_as(element), TensorData)
    assert_type(x.into_data_dtype(element), TensorData)
    assert_type(x.try_to_data(), TensorData | TensorError)
    assert_type(x.try_to_data_as(element), TensorData | TensorError)
    assert_type(x.try_into_vec_as(float), list[Any] | TensorError)


async def waited(x: Tensor[Cpu, D2], b: Tensor[Cpu, D2, Bool]) -> None:
    assert_type(await x.into_scalar_async(), float)
    assert_type(await x.to_data_async(), TensorData)
    assert_type(await x.mask_select_async(b), Tensor[Cpu, D1, Float])
    assert_type(await b.nonzero_async(), list[Tensor[Cpu, D1, Int]])
    assert_type(await b.argwhere_async(), Tensor[Cpu, D2, Int])
    assert_type(await Transaction.default().register(x).execute_async(), list[TensorData])


def in_place_of_nothing(x: Tensor[Cpu, D2], n: Tensor[Cpu, D2, Int]) -> None:
    assert_type(x.inplace(lambda it: it * 2.0), Tensor[Cpu, D2, Float])
    assert_type(n.extract(), Tensor[Cpu, D2, Int])
    assert_type(x.into_primitive(), torch.Tensor)
    assert_type(n.pad([(1, 1)], 0), Tensor[Cpu, D2, Int])


def quantized(x: Tensor[Cpu, D2], scheme: QuantScheme) -> None:
    assert_type(x.quantize_dynamic(scheme), QTensor[Cpu, D2])
    assert_type(x.quantize_dynamic(scheme).dequantize(), Tensor[Cpu, D2, Float])


def written(data: TensorData, backend: Cpu) -> None:
    x: Tensor[Cpu, D2] = Tensor.from_data(data, backend)
    n: Tensor[Cpu, D1, Int] = Tensor.from_data(data, backend, kind=Int)
    assert_type(Tensor.from_data([[1.0]], backend), Tensor[Cpu, D2, Float])
    assert_type(x.sum_dim(0), Tensor[Cpu, D2, Float])
    assert_type(n.sum(), Tensor[Cpu, D1, Int])
