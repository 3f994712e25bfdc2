import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import assert_shape

CPU = Cpu()


def test_what_a_tensor_is() -> None:
    x = Tensor(torch.zeros(2, 3, dtype=torch.float64), CPU)
    assert (x.rank(), x.dims(), x.shape, x.dtype, x.device) == (2, (2, 3), (2, 3), torch.float64, torch.device("cpu"))


def test_a_move_to_where_it_is_gives_the_tensor_itself() -> None:
    x = Tensor(torch.zeros(2), CPU)
    assert x.to_device(CPU) is x
    assert x.to_device("cpu") is x
    assert x.to_device(torch.device("cpu")) is x


def test_a_move_to_another_backend_keeps_elements_and_dtype() -> None:
    x = Tensor(torch.ones(2, dtype=torch.float64), CPU)
    moved = x.to_device(Cpu(float=torch.bfloat16))
    assert (moved.backend, moved.dtype) == (Cpu(float=torch.bfloat16), torch.float64)


def test_a_backend_that_does_not_track_gets_no_history() -> None:
    leaf = torch.ones(2, requires_grad=True)
    x = Tensor(leaf, Autodiff(CPU))
    assert x.to_device("cpu") is x
    assert not x.to_device(CPU).inner.requires_grad
    tracked = x.to_device(Autodiff(Cpu(int=torch.int32)))
    (grad,) = torch.autograd.grad(tracked.inner.sum(), leaf)
    assert grad.tolist() == [1.0, 1.0]


@pytest.mark.cuda
def test_a_move_to_a_device_is_differentiable() -> None:
    leaf = torch.ones(2, requires_grad=True)
    moved = Tensor(leaf, Autodiff(CPU)).to_device("cuda")
    assert moved.backend.name == "autodiff<torch<cuda>>"
    (grad,) = torch.autograd.grad((moved.inner * 2).sum(), leaf)
    assert grad.tolist() == [2.0, 2.0]


def test_burns_ownership_calls_change_nothing() -> None:
    x = Tensor(torch.ones(2), CPU)
    assert x.inplace(lambda it: it.add(1.0)).inner.tolist() == [2.0, 2.0]
    assert x.inner.tolist() == [1.0, 1.0]
    assert x.extract() is x
    assert x.can_mut() is False


def test_the_primitive_is_the_torch_tensor() -> None:
    inner = torch.ones(2, dtype=torch.bool)
    x = Tensor.from_primitive(inner, CPU)
    assert x.into_primitive() is inner
    with pytest.raises(TensorTypeError, match="smallest rank"):
        Tensor.from_primitive(torch.ones(()), CPU)


@pytest.mark.parametrize("pattern", [[2, 3, 4], [2, None, 4], [..., 4], [2, ...], [2, ..., 4], [...], [2, 3, 4, ...]])
def test_a_shape_that_fits(pattern) -> None:
    assert_shape(torch.zeros(2, 3, 4), pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ([2, 3], r"expected 2 dimensions, got 3 \(dims \[2, 3, 4\]\)"),
        ([..., 5], r"assert_shape!\(x, \[\.\., 5\]\).*axis 2 expected 5, got 4 \(dims \[2, 3, 4\]\)"),
        ([1, 2, 3, 4, ...], "at least 4"),
        ([2, None, 3], r"\[2, _, 3\]"),
    ],
)
def test_a_shape_that_does_not_fit_is_named(pattern, message) -> None:
    with pytest.raises(TensorValueError, match=f"(?s){message}"):
        assert_shape(torch.zeros(2, 3, 4), pattern, "x")


def test_the_method_checks_too() -> None:
    x = Tensor(torch.zeros(2, 3), CPU)
    x.assert_shape([2, None])
    with pytest.raises(TensorValueError, match="axis 0"):
        x.assert_shape([3, ...])
    with pytest.raises(TensorTypeError, match="once"):
        x.assert_shape([..., 2, ...])
