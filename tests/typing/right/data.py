"""Reading tensors back to the host, and the forms that return the error instead of raising it."""

from typing import assert_type

from burnlike import D1, D2, Bool, Cpu, Float, Int, Tensor
from burnlike.errors import TensorError
from burnlike.tensor import TensorData, Transaction


def read(x: Tensor[Cpu, D2], n: Tensor[Cpu, D1, Int], b: Tensor[Cpu, D1, Bool]) -> None:
    assert_type(x.to_data(), TensorData)
    assert_type(x.into_scalar(), float)
    assert_type(n.into_scalar(), int)
    assert_type(b.into_scalar(), bool)
    assert_type(x.try_into_data(), TensorData | TensorError)
    assert_type(n.try_into_scalar(), int | TensorError)
    assert_type(Transaction.default().register(x).register(n).execute(), list[TensorData])


async def waited(x: Tensor[Cpu, D2]) -> None:
    assert_type(await x.into_scalar_async(), float)


def written(data: TensorData, backend: Cpu) -> None:
    x: Tensor[Cpu, D2] = Tensor.from_data(data, backend)
    n: Tensor[Cpu, D1, Int] = Tensor.from_data(data, backend, kind=Int)
    assert_type(Tensor.from_data([[1.0]], backend), Tensor[Cpu, D2, Float])
    assert_type(x.sum_dim(0), Tensor[Cpu, D2, Float])
    assert_type(n.sum(), Tensor[Cpu, D1, Int])
