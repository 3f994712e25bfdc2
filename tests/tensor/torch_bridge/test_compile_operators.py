"""Every operator and its reflected form, with every kind of operand, eager and compiled to one graph."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import Unsupported

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorError

FLOAT_OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.mod,
    operator.pow,
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


def both_orders(op: Callable[[Any, Any], Any], x: Any, others: dict[str, Any]) -> dict[str, Any]:
    return {f"{kind} {order}": op(*pair) for kind, it in others.items() for order, pair in pairs(x, it).items()}


def pairs(x: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    return {"right": (x, other), "left": (other, x)}


# With a number on the left and a typed tensor on the right torch itself can't trace these in its older versions.
NUMBER_FIRST_REFUSED_BEFORE_2_13 = (operator.lt, operator.le, operator.ge, operator.and_, operator.or_)


def check(op: Callable[[Any, Any], Any], x: Any, others: dict[str, Any], expected: dict[str, torch.Tensor]) -> None:
    """With each of `others` on either side, eager and in one graph."""
    torch._dynamo.reset()
    compiled: Callable[..., dict[str, Any]] = torch.compile(both_orders, fullgraph=True, backend="eager")
    if torch.__version__ < (2, 13) and op in NUMBER_FIRST_REFUSED_BEFORE_2_13:
        scalar = others["scalar"]
        with pytest.raises(Unsupported):
            compiled(op, x, {"scalar": scalar})
        others = {kind: it for kind, it in others.items() if kind != "scalar"}
        last = torch.compile(op, fullgraph=True, backend="eager")(x, scalar)
        torch.testing.assert_close(last.inner.detach(), expected["scalar right"])
        torch.testing.assert_close(op(scalar, x).inner.detach(), expected["scalar left"])
        expected = {case: it for case, it in expected.items() if not case.startswith("scalar")}
    for function in (both_orders, compiled):
        results = function(op, x, others)
        assert results.keys() == expected.keys()
        for case, result in results.items():
            assert isinstance(result, Tensor), case
            torch.testing.assert_close(
                result.inner.detach(), expected[case], msg=lambda text, case=case: f"{case}: {text}"
            )


@pytest.mark.parametrize("backend", [Cpu(), Autodiff(Cpu())], ids=["cpu", "autodiff"])
@pytest.mark.parametrize("op", FLOAT_OPERATORS, ids=lambda op: op.__name__)
def test_float_operators(op: Callable[[Any, Any], Any], backend: Any) -> None:
    others = {
        "typed": Tensor(RIGHT, backend),
        "tensor": RIGHT,
        "parameter": torch.nn.Parameter(RIGHT.clone()),
        "scalar": 2.5,
    }
    expected = both_orders(op, LEFT, {**others, "typed": RIGHT, "parameter": RIGHT})
    check(op, Tensor(LEFT, backend), others, expected)


@pytest.mark.parametrize("backend", [Cpu(), Autodiff(Cpu())], ids=["cpu", "autodiff"])
def test_matmul_takes_tensors_on_either_side_and_no_scalar(backend: Any) -> None:
    x = Tensor(LEFT, backend)
    torch.testing.assert_close((x @ Tensor(RIGHT, backend)).inner, LEFT @ RIGHT)
    for other in (RIGHT, torch.nn.Parameter(RIGHT.clone())):
        torch.testing.assert_close((x @ other).inner.detach(), LEFT @ RIGHT)
        torch.testing.assert_close((other @ x).inner.detach(), RIGHT @ LEFT)
    for refused in (lambda: x @ 2.5, lambda: 2.5 @ x):
        with pytest.raises((TensorError, TypeError)):
            refused()


@pytest.mark.parametrize("op", BOOL_OPERATORS, ids=lambda op: op.__name__)
def test_bool_operators(op: Callable[[Any, Any], Any]) -> None:
    left, right = LEFT > 2, RIGHT > 1.4
    others = {"typed": Tensor(right, Cpu()), "tensor": right, "scalar": True}
    check(op, Tensor(left, Cpu()), others, both_orders(op, left, {**others, "typed": right}))


def check_refused(function: Callable[[Any], Any], x: Any, message: str) -> None:
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match=message):
        torch.compile(function, fullgraph=True, backend="eager")(x)


def check_refused_before_2_14(function: Callable[[Any], Any], x: Any, message: str) -> None:
    """torch itself said that it can't trace the operator of typed tensors, until 2.14 did."""
    if torch.__version__ < (2, 14):
        check_refused(function, x, message)
        return
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="eager")(x)
    torch.testing.assert_close(compiled.inner, function(x).inner)


def test_matmul_compiles_by_name_and_is_refused_as_an_operator() -> None:
    weight = torch.nn.Parameter(RIGHT.clone())
    x = Tensor(LEFT, Autodiff(Cpu()))
    by_name: list[Callable[[Any], Any]] = [
        lambda x: x.matmul(x),
        lambda x: x.matmul(weight),
        lambda x: torch.matmul(x, weight),
        lambda x: torch.matmul(weight, x),
    ]
    for function in by_name:
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend="eager")(x)
        torch.testing.assert_close(compiled.inner, function(x).inner)
    check_refused_before_2_14(lambda x: x @ x, x, "builtin operator `matmul`")
    check_refused(lambda x: x @ weight, x, r"write x\.matmul\(w\)")
    check_refused(lambda x: weight @ x, x, r"write x\.matmul\(w\)")


def test_not_compiles_by_name_and_is_refused_as_an_operator() -> None:
    x = Tensor(LEFT > 2, Cpu())
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.bool_not(), fullgraph=True, backend="eager")(x)
    assert torch.equal(compiled.inner, LEFT <= 2)
    check_refused_before_2_14(lambda x: ~x, x, r"alternative function/method to `invert`")
