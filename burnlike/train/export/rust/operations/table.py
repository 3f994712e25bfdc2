"""Functions of torch as Burn's: one row for each operation of a graph that has a counterpart."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from ..expressions import Expr
from ..printing import number

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


def value_of(x: Any) -> Any:
    return x.meta["val"] if isinstance(x, fx.Node) else x


def rank_of(x: Any) -> int:
    return max(value_of(x).dim(), 1)


def kind_of(x: Any) -> str:
    value = value_of(x)
    if isinstance(value, torch.Tensor):
        return "Bool" if value.dtype == torch.bool else "Float" if value.is_floating_point() else "Int"
    return "Bool" if isinstance(value, bool) else "Float" if isinstance(value, float) else "Int"


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


def name_for(w: Any, x: Any) -> str:
    from ..functions import name_of

    return name_of(x)


def is_plain(found: Expr) -> bool:
    return found.text.startswith("\ue000") and found.text.endswith("\ue001") and found.text.count("\ue000") == 1


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
    found, shape = tensor_of(w, x, kind, rank_of(w.node)), w.node.meta["val"].shape
    if [*map(str, value_of(x).shape)] != [*map(str, shape)]:
        found = found.dot(f"expand([{', '.join(map(w.size, shape))}])")
    return found


def places_of(dims: Any, x: Any) -> list[int]:
    listed = [] if dims is None else [dims] if isinstance(dims, int) else [*dims]
    return sorted({place_of(it, x) for it in listed}) or [*range(rank_of(x))]


def squeezed(found: Expr, places: Sequence[int], rank: int) -> Expr:
    if len(places) == rank:
        return found.dot("reshape([1])") if rank > 1 else found
    if len(places) == 1:
        return found.dot(f"squeeze_dim::<{rank - 1}>({places[0]})")
    return found.dot(f"squeeze_dims::<{rank - len(places)}>(&[{', '.join(map(str, places))}])")
