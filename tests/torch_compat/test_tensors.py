"""What torch knows of a tensor."""

from typing import Any

import pytest
import torch
from torch import nn

from burnlike._torch_compat import tensors


def test_takes_data_of() -> None:
    assert tensors.takes_data_of(torch.ones(2), torch.ones(3, dtype=torch.float64))
    assert not tensors.takes_data_of(torch.ones(2), torch.ones(2).to_sparse())


def test_TAKES_DATA() -> None:
    asked: list[str] = []

    class Noting(nn.Parameter):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(getattr(func, "__name__", ""))
            return super().__torch_function__(func, types, args, kwargs or {})

    layer = nn.Linear(2, 2, bias=False)
    layer.weight = Noting(torch.ones(2, 2))
    asked.clear()
    layer.to(torch.float64)
    assert tensors.TAKES_DATA in asked


def test_shares_memory() -> None:
    whole = torch.ones(4)
    assert tensors.shares_memory(whole, whole[2:])
    assert not tensors.shares_memory(whole, whole.clone())


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")  # from torch 2.15 on
def test_quantized_tensor() -> None:
    values = torch.tensor([[1, -2], [3, 4]], dtype=torch.int8)
    made = tensors.quantized_tensor(values, 0.5, 1)
    assert made.int_repr().equal(values)
    assert made.dequantize().tolist() == [[0.0, -1.5], [1.0, 1.5]]
    by_row = tensors.quantized_tensor(values, torch.tensor([0.5, 2.0]), torch.tensor([0, 1]), axis=0)
    assert by_row.dequantize().tolist() == [[0.5, -1.0], [4.0, 6.0]]


def test_in_backward() -> None:
    seen: list[bool] = []
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(lambda grad: seen.append(tensors.in_backward()))
    leaf.sum().backward()
    assert seen == [True]
    assert not tensors.in_backward()


def test_run_backward() -> None:
    leaf = torch.tensor([2.0, 3.0], requires_grad=True)
    tensors.run_backward(leaf * leaf, torch.tensor([1.0, 10.0]))
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [4.0, 60.0]


def test_is_view() -> None:
    whole = torch.ones(4)
    assert tensors.is_view(whole[:2])
    assert not tensors.is_view(whole)


def test_times_written() -> None:
    made = torch.ones(4)
    before = tensors.times_written(made)
    made[:2].zero_()
    assert tensors.times_written(made) == before + 1
