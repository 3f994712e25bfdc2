"""Functions of torch as Burn's: one row for each operation of a graph that has a counterpart."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from ..expressions import Expr
from ..printing import number
from ..values import kind_of, rank_of, value_of

END = 2**62
"""A size at least as large means the end of a dimension."""


class Several(NamedTuple):
    """The results of an operation that gives several."""

    items: Sequence[Expr]


Operation = Callable[..., Any]
OPERATIONS: dict[str, Operation] = {}


def operation(*names: str) -> Callable[[Operation], Operation]:
    def register(function: Operation) -> Operation:
        OPERATIONS.update({f"aten.{name}": function for name in names})
        return function

    return register


def place_of(dim: int, x: Any) -> int:
    return dim % rank_of(x)


def is_number(x: Any) -> bool:
    """True for a number of the program, and for a tensor that is one."""
    return not isinstance(x, fx.Node) or not isinstance(x.meta["val"], torch.Tensor)


def number_of(w: Any, x: Any, kind: str) -> str:
    """A number as Rust: an integer, a float, or an expression of sizes as one of these."""
    value = value_of(x)
    if isinstance(value, torch.SymInt):
        text = w.size(x)
        plain = text.isidentifier()
        return f"{text if plain else f'({text})'} as {'f64' if kind == 'Float' else 'i64'}"
    if isinstance(value, torch.SymFloat):
        raise w.refused("a number that depends on sizes")
    if kind == "Bool":
        return str(bool(value)).lower()
    if kind == "Int" and float(value).is_integer():
        if not -(2**31) <= value < 2**31:
            raise w.refused(f"the whole number {int(value)}, which Burn's of 32 bits are not")
        return str(int(value))
    return number(value)


def tensor_of(w: Any, x: Any, kind: str, rank: int) -> Expr:
    """A tensor of a kind and at least of a rank."""
    found: Expr = w.argument(x)
    if kind_of(x) != kind:
        found = found.dot({"Float": "float()", "Int": "int()", "Bool": "bool()"}[kind])
    return found.dot(f"unsqueeze::<{rank}>()") if rank_of(x) < rank else found


def literal_of(w: Any, x: Any) -> str | None:
    """The text of a tensor that is one number of the program's, known before it runs."""
    if not isinstance(x, fx.Node) or x.op != "placeholder" or x.meta["val"].dim():
        return None
    held = w.all.trace.values.get(x.name)
    return None if held is None or isinstance(held[1], torch.nn.Parameter) else w.expression(x).text


def kind_of_all(*values: Any) -> str:
    kinds = {kind_of(it) for it in values}
    return "Float" if "Float" in kinds else "Int" if "Int" in kinds else "Bool"


def scalar_of(w: Any, x: Any, kind: str) -> str | None:
    """The text of a number, or of a tensor that is one; None for other tensors."""
    return number_of(w, x, kind) if is_number(x) else literal_of(w, x)


def sizes_of(w: Any) -> str:
    """The sizes of the result."""
    return ", ".join(map(w.size, value_of(w.node).shape))


def has_shape_of(x: Any, y: Any) -> bool:
    return [*map(str, value_of(x).shape)] == [*map(str, value_of(y).shape)]


def range_of(w: Any, start: Any, end: Any, length: Any) -> str:
    """A range of Rust; negative numbers count from the end, as in Burn."""
    first = "0" if start is None else w.size(start)
    is_end = (
        end is None or (isinstance(value_of(end), int) and value_of(end) >= END) or str(value_of(end)) == str(length)
    )
    last = "" if is_end else w.size(end)
    first = "" if first == "0" and not last else first
    return f"{first}..{last}"


def filled_out(w: Any, x: Any, kind: str) -> Expr:
    """A tensor with the shape of the result."""
    found = tensor_of(w, x, kind, rank_of(w.node))
    return found if has_shape_of(x, w.node) else found.dot(f"expand([{sizes_of(w)}])")


def places_of(dims: Any, x: Any) -> list[int]:
    listed = [] if dims is None else [dims] if isinstance(dims, int) else [*dims]
    return sorted({place_of(it, x) for it in listed}) or [*range(rank_of(x))]


def squeezed(found: Expr, places: Sequence[int], rank: int) -> Expr:
    if len(places) == rank:
        return found.dot("reshape([1])") if rank > 1 else found
    if len(places) == 1:
        return found.dot(f"squeeze_dim::<{rank - 1}>({places[0]})")
    return found.dot(f"squeeze_dims::<{rank - len(places)}>(&[{', '.join(map(str, places))}])")
