import pytest
import torch

from burnlike import Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError

CPU = Cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
def test_the_code_keeps_the_dtype(dtype: torch.dtype) -> None:
    x = Tensor(torch.tensor([[0, 2], [1, 2]]).to(dtype), CPU)
    code = x.one_hot(3)
    assert code.inner.equal(torch.nn.functional.one_hot(x.inner.long(), 3).to(dtype))
    assert code.rank() == 3


def test_negative_elements_count_from_the_last_class() -> None:
    assert Tensor(torch.tensor([-1, -3], dtype=torch.int8), CPU).one_hot(3).inner.tolist() == [[0, 0, 1], [1, 0, 0]]
    wide = Tensor(torch.tensor([-1], dtype=torch.int8), CPU).one_hot(200)
    assert wide.inner.nonzero().tolist() == [[0, 199]]
    assert Tensor(torch.tensor([-1.0], dtype=torch.bfloat16), CPU).one_hot(3001).inner[0, 3000] == 1


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_fill_puts_the_classes_on_an_axis(axis: int) -> None:
    indices = torch.tensor([[0, 2], [1, 0]])
    code = Tensor(indices, CPU).one_hot_fill(3, 5, -1, axis)
    dim = axis % 3
    expected = torch.nn.functional.one_hot(indices, 3).movedim(-1, dim) * 6 - 1
    assert code.inner.equal(expected)


def test_values_are_converted_to_the_kind() -> None:
    x = torch.tensor([1, 0])
    assert Tensor(x, CPU).one_hot_fill(2, 2.0, 0.0, -1).inner.tolist() == [[0, 2], [2, 0]]
    assert Tensor(x.float(), CPU).one_hot_fill(2, 2.5, 0.5, -1).inner.tolist() == [[0.5, 2.5], [2.5, 0.5]]


def test_what_has_no_code_is_refused() -> None:
    x = Tensor(torch.tensor([0.0, 1.0]), CPU)
    for classes in (1, 0, -2):
        with pytest.raises(TensorValueError, match="at least 2 classes"):
            x.one_hot(classes)
    for wrong in (2.0, -3.0, float("nan"), float("inf")):
        with pytest.raises(TensorValueError, match="2 classes have -2"):
            Tensor(torch.tensor([0.0, wrong]), CPU).one_hot(2)
    for axis in (2, -3):
        with pytest.raises(TensorValueError, match="One Hot Fill"):
            x.one_hot_fill(2, 1.0, 0.0, axis)
    with pytest.raises(TensorValueError, match="rank 8"):
        Tensor(torch.zeros([1] * 8), CPU).one_hot(2)  # pyright: ignore
    with pytest.raises(TensorTypeError, match="not defined for Bool"):
        Tensor(torch.tensor([True]), CPU).one_hot(2)  # pyright: ignore


def test_nothing_has_an_empty_code() -> None:
    assert Tensor(torch.zeros(0), CPU).one_hot(4).shape == (0, 4)
