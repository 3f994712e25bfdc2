"""Methods and functions that rows of a table make are like written ones."""

import inspect
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

from burnlike import Cpu, Tensor
from burnlike.errors import TensorError
from burnlike.tensor import activation
from burnlike.tensor.arithmetic.elementwise import FloatMethods
from burnlike.tensor.core import templates
from burnlike.tensor.core.table import Family, expanded_overloads, overloads

X = Tensor(torch.tensor([1.0, 4.0]), Cpu())


def test_a_row_is_a_function_of_its_own() -> None:
    assert str(inspect.signature(FloatMethods.sqrt)) == "(self: 'Floats[B, D]') -> 'Tensor[B, D, Float]'"
    assert str(inspect.signature(Tensor.sum_dim)) == "(self: 'Numeric[B, D]', dim: int) -> 'Tensor[B, D, K]'"
    assert (FloatMethods.sqrt.__name__, FloatMethods.sqrt.__qualname__) == ("sqrt", "FloatMethods.sqrt")
    assert FloatMethods.sqrt.__module__ == "burnlike.tensor.arithmetic.elementwise"
    assert inspect.getdoc(activation.softmin) == (
        "softmax(-x) along a dimension. `[..] -> [..]`.\nTorch: `F.softmin`. Differs: `dim` has no default."
    )


def test_arguments_have_the_names_of_the_signature() -> None:
    assert X.clamp_min(min=2.0).inner.tolist() == [2.0, 4.0]
    assert X.clamp_max(max=2.0).inner.tolist() == [1.0, 2.0]
    assert X.add_scalar(scalar=2.0).inner.tolist() == [3.0, 6.0]


@pytest.mark.parametrize("function", [X.sqrt, Tensor.sqrt, activation.relu], ids=["bound", "method", "function"])
def test_a_row_can_be_pickled(function: Callable[..., Any]) -> None:
    again = pickle.loads(pickle.dumps(function))
    arguments = () if inspect.ismethod(function) else (X,)
    assert again(*arguments).inner.tolist() == function(*arguments).inner.tolist()


def test_errors_name_the_row_and_its_frame() -> None:
    with pytest.raises(TensorError, match="Sub") as raised:
        X.sub(Tensor(torch.ones(3), Cpu()))
    assert "sub" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


def test_rows_of_one_template_are_traced_apart() -> None:
    def both(x: Any) -> tuple[Any, Any]:
        return x.sqrt(), x.floor()

    for compiled, eager in zip(torch.compile(both, backend="eager", fullgraph=True)(X), both(X), strict=True):
        assert torch.equal(compiled.inner, eager.inner)


def test_the_differences_of_a_family_are_those_of_rows_that_say_none() -> None:
    rows = {"sqrt": "A. Torch: `a`.", "floor": "B. Torch: `b`. Differs: much."}
    family = Family(templates.unary, "(self) -> Any", rows, shapes="`[..]`", differs="little")
    docs = {name: function.__doc__ for name, function in family.functions(__name__)}
    assert docs == {
        "sqrt": "A. `[..]`.\nTorch: `a`. Differs: little.",
        "floor": "B. `[..]`.\nTorch: `b`. Differs: much.",
    }


def test_overloads_go_rank_by_rank() -> None:
    @overloads("(a: S{n}) -> D{n}", "(b: S{n}) -> D{m}", "(c: Any) -> Any")
    def function() -> None: ...

    forms = expanded_overloads(function)
    assert forms[:3] == ["(a: S1) -> D1", "(b: S1) -> D2", "(a: S2) -> D2"]
    assert forms[-3:] == ["(b: S7) -> D8", "(a: S8) -> D8", "(c: Any) -> Any"]
