"""Every operator and its reflected form, compiled: the values of eager mode, or an error, never other numbers."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import TorchRuntimeError, Unsupported

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorError

FLOAT_OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.mod,
    operator.pow,
    operator.matmul,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]
BOOL_OPERATORS: list[Callable[[Any, Any], Any]] = [operator.and_, operator.or_, operator.xor, operator.eq, operator.ne]
# Square and not symmetric, so that a swapped operand or a transposition shows.
LEFT = torch.tensor([[1.5, 2.0, 0.25], [3.0, 1.0, 4.0], [0.5, 6.0, 2.5]])
RIGHT = torch.tensor([[2.0, 0.75, 3.0], [1.0, 5.0, 0.5], [4.0, 1.25, 1.5]])


def others(backend: Any) -> dict[str, Any]:
    return {
        "typed": Tensor(RIGHT, backend),
        "tensor": RIGHT,
        "parameter": torch.nn.Parameter(RIGHT.clone()),
        "scalar": 2.5,
    }


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The values that a call gives, or None where it raises."""
    try:
        result = function(*args)
    except (TensorError, TypeError, Unsupported, TorchRuntimeError):
        return None
    assert isinstance(result, Tensor)
    return result.inner.detach()


def check(function: Callable[[Any, Any], Any], x: Any, other: Any, expected: torch.Tensor | None) -> None:
    eager = outcome(function, x, other)
    if expected is None:
        assert eager is None
    else:
        torch.testing.assert_close(eager, expected)
    torch._dynamo.reset()
    compiled = outcome(torch.compile(function, fullgraph=True, backend="eager"), x, other)
    if compiled is not None:
        assert eager is not None
        torch.testing.assert_close(compiled, eager)


@pytest.mark.parametrize("backend", [Cpu(), Autodiff(Cpu())], ids=["cpu", "autodiff"])
@pytest.mark.parametrize("kind", ["typed", "tensor", "parameter", "scalar"])
@pytest.mark.parametrize("op", FLOAT_OPERATORS, ids=lambda op: op.__name__)
def test_float_operators(op: Callable[[Any, Any], Any], kind: str, backend: Any) -> None:
    x = Tensor(LEFT, backend)
    other = others(backend)[kind]
    no_scalar = op is operator.matmul and kind == "scalar"
    plain = RIGHT if kind != "scalar" else 2.5
    check(op, x, other, None if no_scalar else op(LEFT, plain))
    check(lambda x, other: op(other, x), x, other, None if no_scalar else op(plain, LEFT))


@pytest.mark.parametrize("kind", ["typed", "tensor", "scalar"])
@pytest.mark.parametrize("op", BOOL_OPERATORS, ids=lambda op: op.__name__)
def test_bool_operators(op: Callable[[Any, Any], Any], kind: str) -> None:
    left, right = LEFT > 2, RIGHT > 1.4
    x = Tensor(left, Cpu())
    other = {"typed": Tensor(right, Cpu()), "tensor": right, "scalar": True}[kind]
    plain = True if kind == "scalar" else right
    check(op, x, other, op(left, plain))
    check(lambda x, other: op(other, x), x, other, op(plain, left))


def test_matmul_of_a_typed_and_a_torch_tensor_compiles_by_name_and_is_refused_as_an_operator() -> None:
    weight = torch.nn.Parameter(RIGHT.clone())
    x = Tensor(LEFT, Autodiff(Cpu()))
    for function in (lambda x: x.matmul(weight), lambda x: torch.matmul(x, weight), lambda x: torch.matmul(weight, x)):
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend="eager")(x)
        torch.testing.assert_close(compiled.inner, function(x).inner)
    for function in (lambda x: x @ weight, lambda x: weight @ x):
        torch._dynamo.reset()
        with pytest.raises(Unsupported, match=r"write x\.matmul\(w\)"):
            torch.compile(function, fullgraph=True, backend="eager")(x)
