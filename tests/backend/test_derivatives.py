"""Functions of a backend that torch can't record have torch's derivative, or one of their own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.backend import TorchFloatOps, map_ops
from burnlike.errors import BackendError
from burnlike.tensor import activation, linalg, module
from examples.recording_backend import Recording

ROWS = torch.tensor([[1.0, 2.0], [3.0, 5.0]])


def leave_torch(value: Any) -> Any:
    """The same values, taken through NumPy, which no history survives."""
    if isinstance(value, torch.Tensor):
        return torch.from_numpy(np.array(value.detach().numpy()))
    return tuple(map(leave_torch, value)) if isinstance(value, tuple) else value


class Leaving(Cpu):
    """Functions of one name leave torch."""

    def __init__(self, name: str) -> None:
        super().__init__()
        object.__setattr__(self, "function", name)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def _table(self, table: Any) -> Any:
        def change(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            leaves = name == self.__dict__["function"]
            return (lambda *args, **kwargs: leave_torch(function(*args, **kwargs))) if leaves else function

        return map_ops(table, change)

    @property
    def float_ops(self) -> Any:
        return self._table(super().float_ops)

    @property
    def module_ops(self) -> Any:
        return self._table(super().module_ops)

    @property
    def activation_ops(self) -> Any:
        return self._table(super().activation_ops)


def operands(backend: Any) -> tuple[Any, Any]:
    """A tracked and an untracked tensor with the same values."""
    x = Tensor(ROWS.clone(), backend)
    return x.require_grad(), x


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("float_ops.exp", lambda x, _: x.exp() + x),
        ("float_ops.add", lambda x, y: y + x),
        ("float_ops.cat", lambda x, y: Tensor.cat([y, x], 0)),
        ("float_ops.max_dim_with_indices", lambda x, _: x.max_dim_with_indices(0)),
        ("float_ops.cast", lambda x, _: x.cast(torch.float64)),
        ("module_ops.linear", lambda x, y: module.linear(y, y, x.select_dim(0, 0))),
        ("module_ops.det", lambda x, _: linalg.det(x.unsqueeze(3))),
        ("activation_ops.relu", lambda x, _: activation.relu(x)),
    ],
)
def test_a_function_that_leaves_torch_has_torchs_derivative(name: str, call: Callable[[Any, Any], Any]) -> None:
    found = []
    for backend in (Autodiff(Leaving(name.split(".")[1])), Autodiff(Cpu())):
        x, y = operands(backend)
        result = call(x, y)
        result = result[0] if isinstance(result, tuple) else result
        assert result.inner.requires_grad
        found.append(x.grad((result * result).sum().backward()).inner)
        with torch.no_grad():
            assert not [it for it in [call(x, y)] if not isinstance(it, tuple) and it.inner.requires_grad]
        call(y, y)
    torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-6)


def test_a_function_that_torch_has_not_is_named() -> None:
    class More(Leaving):
        @property
        def float_ops(self) -> Any:
            table = super().float_ops
            table.cube = lambda tensor: leave_torch(tensor**3)
            return table

    x, y = operands(Autodiff(More("exp")))
    with pytest.raises(BackendError, match=r"float_ops\.cube: torch has no such function.*torch\.autograd\.Function"):
        x.backend.float_ops.cube(x.inner)
    assert x.backend.float_ops.cube(y.inner).tolist() == (ROWS**3).tolist()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("floor", lambda x: x.floor()),
        ("sign", lambda x: x.sign()),
        ("argmax", lambda x: x.argmax(0).float()),
        ("greater", lambda x: x.greater(x).float()),
        ("zeros_like", lambda x: x.zeros_like()),
        ("detach", lambda x: x.mul(x).detach()),
    ],
)
def test_functions_without_a_derivative_add_nothing(name: str, call: Callable[[Any], Any]) -> None:
    x, _ = operands(Autodiff(Leaving(name)))
    grads = (call(x) + x).sum().backward()
    assert x.grad(grads).inner.tolist() == [[1.0, 1.0], [1.0, 1.0]]  # pyright: ignore


class Exp(torch.autograd.Function):
    """exp by NumPy, with its derivative."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        result = leave_torch(torch.exp(tensor))
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * ctx.saved_tensors[0]


class OwnFloatOps(TorchFloatOps):
    """torch's, but for one function."""

    @staticmethod
    def exp(tensor: torch.Tensor, /) -> torch.Tensor:
        return Exp.apply(tensor)  # pyright: ignore


class Own(Cpu):
    """A backend that brings a derivative."""

    @property
    def float_ops(self) -> Any:
        return OwnFloatOps()


def test_a_derivative_of_the_backends_own_is_used() -> None:
    x, _ = operands(Autodiff(Own()))
    grads = (x.exp() + x).sum().backward()
    torch.testing.assert_close(x.grad(grads).inner, ROWS.exp() + 1)  # pyright: ignore
    torch.testing.assert_close(Tensor(ROWS, Own()).exp().inner, ROWS.exp())


def test_functions_that_are_torchs_are_not_checked() -> None:
    own, torchs = Autodiff(Own()).float_ops, Cpu().float_ops
    assert own.add is torchs.add
    assert own.exp is not OwnFloatOps.exp
    for table in ("float_ops", "int_ops", "bool_ops", "module_ops", "activation_ops"):
        assert getattr(Autodiff(Cpu()), table) is getattr(Cpu(), table)


def test_a_backend_around_another_one_may_keep_the_history() -> None:
    x, _ = operands(Autodiff(Recording(Cpu())))
    grads = (x.exp() + x).sum().backward()
    torch.testing.assert_close(x.grad(grads).inner, ROWS.exp() + 1)  # pyright: ignore
