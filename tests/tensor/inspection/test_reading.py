import asyncio

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import TensorData, Transaction
from burnlike.tensor.core.spec import KINDS

CPU = Cpu()


@pytest.mark.parametrize("dtype", list(KINDS), ids=str)
def test_every_dtype_is_read_as_it_is(dtype) -> None:
    inner = torch.tensor([[1.0, 0.0], [3.5, 100.0]]).to(dtype)
    data = Tensor(inner, CPU).to_data()
    assert (data.shape, data.dtype) == ((2, 2), dtype)
    assert data.to_nested() == inner.tolist()
    assert torch.equal(Tensor.from_data(data, CPU, KINDS[dtype], dtype).inner, inner)


def test_a_view_is_read_in_row_major_order() -> None:
    x = Tensor(torch.arange(6).reshape(2, 3), CPU).transpose()
    assert x.into_data().to_vec() == [0, 3, 1, 4, 2, 5]


def test_reading_has_no_history() -> None:
    x = Tensor(torch.ones(2, requires_grad=True), Autodiff(CPU)).add(1.0)
    assert x.to_data().to_vec() == [2.0, 2.0]


def test_reading_converts_to_another_type() -> None:
    x = Tensor(torch.tensor([1.9, -1.9]), CPU)
    assert x.to_data_as(int).to_vec() == [1, -1]
    assert x.into_data_dtype("i8").dtype is torch.int8
    assert x.try_to_vec_as(bool) == [True, True]


def test_the_try_forms_return_the_error() -> None:
    x = Tensor(torch.tensor([float("nan"), 300.0]), CPU)
    for outcome in (x.try_to_data_as(int), x.try_into_data_dtype("i8"), x.try_into_vec_as(int), x.try_into_scalar()):
        assert isinstance(outcome, TensorValueError)
    assert isinstance(x.try_to_data(), TensorData)
    with pytest.raises(TensorValueError):
        x.to_data_as(int)


def test_a_scalar_is_the_only_element() -> None:
    assert Tensor(torch.tensor([[2.5]]), CPU).into_scalar() == 2.5
    assert Tensor(torch.tensor([3]), CPU).into_scalar() == 3
    assert Tensor(torch.tensor([True]), CPU).into_scalar() is True
    assert Tensor(torch.ones(1, requires_grad=True), Autodiff(CPU)).into_scalar() == 1.0
    with pytest.raises(TensorValueError, match="Into Scalar"):
        Tensor(torch.ones(2), CPU).into_scalar()


def test_the_async_forms_give_the_same() -> None:
    x = Tensor(torch.tensor([2.5]), CPU)

    async def read() -> list[object]:
        return [await x.to_data_async(), await x.into_data_async(), await x.into_scalar_async()]

    data = x.to_data()
    assert asyncio.run(read()) == [data, data, 2.5]
    assert isinstance(asyncio.run(Tensor(torch.ones(2), CPU).try_into_scalar_async()), TensorValueError)


def test_a_transaction_reads_in_the_order_of_registration() -> None:
    tensors = [torch.tensor([[1.5]]), torch.tensor([1, 2]), torch.tensor([True])]
    reads = Transaction.default()
    for number, tensor in enumerate(tensors):
        reads = reads.register(Tensor(tensor, Autodiff(CPU) if number else CPU))
    expected = [tensor.tolist() for tensor in tensors]
    assert [data.to_nested() for data in reads.execute()] == expected
    assert asyncio.run(reads.execute_async()) == reads.try_execute() == reads.execute()
    with pytest.raises(TensorTypeError, match="Transaction"):
        Transaction().register(torch.ones(1))  # pyright: ignore[reportArgumentType]


@pytest.mark.cuda
def test_a_transaction_reads_from_a_device() -> None:
    x = Tensor(torch.arange(1000, device="cuda"), None)
    (data,) = Transaction().register(x.add(1)).execute()
    assert data.to_vec() == list(range(1, 1001))
