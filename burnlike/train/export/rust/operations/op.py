"""An operation of a graph: its arguments by the names of torch's schema, and Burn's expression for it."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from ....._torch_compat.dispatch import schema_of
from ..expressions import Expr
from ..printing import number
from ..tracing import torch_name
from ..values import kind_of, rank_of, value_of

END = 2**62
"""A size at least as large means the end of a dimension."""
_FIELD = re.compile(r"\{(\w+)(?::(=|\w+)?(\^?))?\}")
_CASTS = {"Float": "float()", "Int": "int()", "Bool": "bool()"}


class Several(NamedTuple):
    """The results of an operation that gives several."""

    items: Sequence[Expr]


Handler = Callable[..., Any]
OPERATIONS: dict[str, str | Handler] = {}
"""A row for each operation of torch: a template, see `Op.filled`, or a function, see `operation`."""


def operation(*names: str) -> Callable[[Handler], Handler]:
    """Register a function of the `Op` and of those of its arguments that it names; `x`, `y` and `z` are the first."""

    def register(handler: Handler) -> Handler:
        OPERATIONS.update(dict.fromkeys(names, handler))
        return handler

    return register


def expression_of(w: Any, node: fx.Node) -> Any:
    """The expression, or `Several`, for a node."""
    target = str(node.target).removeprefix("aten.").removesuffix(".default")
    name = torch_name(node)
    plain = name if name.endswith("__") else name.removesuffix("_")
    row = next((OPERATIONS[it] for it in (target, name, plain) if it in OPERATIONS), None)
    if row is None or not isinstance(node.target, torch._ops.OpOverload):
        raise w.refused(f"the operation {target}")
    op = Op(w, node)
    if isinstance(row, str):
        return op.filled(row)
    wanted = [*inspect.signature(row).parameters][1:]
    return row(op, **{it: op.arguments[it] for it in wanted if it in op.arguments})


class Op:
    """An operation that is being written.

    Attributes:
        w: the writer of the function that it is in.
        name: torch's, without the namespace and the overload.
        arguments: by the names of torch's schema; `x`, `y` and `z` are the first three.
        kind, shape: of the result.
    """

    def __init__(self, w: Any, node: fx.Node) -> None:
        parameters = schema_of(node.target).arguments
        self.w, self.node = w, node
        self.name = torch_name(node).removesuffix("_")
        values = [*node.args]
        values += [node.kwargs.get(parameter.name, parameter.default_value) for parameter in parameters[len(values) :]]
        self.arguments: dict[str, Any] = dict(zip((parameter.name for parameter in parameters), values, strict=True))
        self.types = {parameter.name: str(parameter.type) for parameter in parameters}
        self.arguments |= dict(zip("xyz", values, strict=False))
        self.types |= dict(zip("xyz", self.types.values(), strict=False))
        self.kind, self.shape = kind_of(node), getattr(value_of(node), "shape", ())

    @property
    def rank(self) -> int:
        return rank_of(self.node)

    def refused(self, what: str) -> Exception:
        return self.w.refused(what)

    def let(self, expr: str, name: str) -> Expr:
        return self.w.let(Expr(expr), name)

    def named(self, expr: Expr, name: str) -> Expr:
        """The expression, with a name if it has none."""
        return expr if expr.is_value else self.let(expr, name)

    # Values as text

    def filled(self, template: str) -> Expr:
        """The expression of a template.

        In this `{NAME}` is an argument, `{NAME:KIND}` a tensor as that kind, `{NAME:=}` as the kind of the result,
        `{NAME:^}` with the rank of the result; `{op}` is the name, `{rank}` and `{sizes}` are the result's.
        """

        def text(match: re.Match[str]) -> str:
            name, kind, is_whole = match.groups()
            special = {"op": lambda: self.name, "rank": lambda: str(self.rank), "sizes": self.sizes}.get(name)
            if special is not None:
                return special()
            value, type_name = self.arguments[name], self.types.get(name, "")
            if "Tensor" in type_name:
                if is_number(value):
                    raise self.refused(f"{self.name} of a tensor and a number")
                tensor = self.tensor(value, self.kind if kind == "=" else kind, self.rank if is_whole else 1)
                is_operand = template[match.end() :].startswith(".") or template[: match.start()].endswith("-")
                return tensor.within(0) if is_operand else tensor
            if name.startswith(("dim", "axis")):
                places = [value] if isinstance(value, int) else value
                return ", ".join(str(self.place(place)) for place in places)
            return number(float(value)) if type_name in ("float", "number") else self.w.size(value)

        return self.expr(_FIELD.sub(text, template))

    def expr(self, text: str) -> Expr:
        return self.w.expr(text)

    def tensor(self, x: Any, kind: str | None = None, rank: int = 1) -> Expr:
        """A tensor as a kind, and at least of a rank."""
        expr: Expr = self.w.argument(x)
        if kind and kind_of(x) != kind:
            expr = expr.dot(_CASTS[kind])
        return expr.dot(f"unsqueeze::<{rank}>()") if rank_of(x) < rank else expr

    def optional(self, x: Any) -> str:
        return "None" if x is None else f"Some({self.tensor(x)})"

    def whole(self, x: Any, kind: str) -> Expr:
        """A tensor with the shape of the result."""
        expr = self.tensor(x, kind, self.rank)
        return expr if same_shape(x, self.node) else expr.dot(f"expand([{self.sizes()}])")

    def number(self, x: Any, kind: str) -> str:
        """A number as Rust: an integer, a float, or an expression of sizes as one of these."""
        value = value_of(x)
        if isinstance(value, torch.SymInt):
            text = self.w.size(x)
            return f"{text if text.isidentifier() else f'({text})'} as {'f64' if kind == 'Float' else 'i64'}"
        if isinstance(value, torch.SymFloat):
            raise self.refused("a number that depends on sizes")
        if kind == "Bool":
            return str(bool(value)).lower()
        if kind == "Int" and float(value).is_integer():
            if not -(2**31) <= value < 2**31:
                raise self.refused(f"the whole number {int(value)}, which Burn's of 32 bits are not")
            return str(int(value))
        return number(value)

    def literal(self, x: Any) -> str | None:
        """The text of a tensor that is one number of the program's, known before it runs."""
        if not isinstance(x, fx.Node) or x.op != "placeholder" or value_of(x).dim():
            return None
        held = self.w.all.trace.values.get(x.name)
        return None if held is None or isinstance(held[1], torch.nn.Parameter) else self.w.expression(x)

    def scalar(self, x: Any, kind: str) -> str | None:
        """The text of a number, or of a tensor that is one; None for other tensors."""
        return self.number(x, kind) if is_number(x) else self.literal(x)

    # Shapes

    def sizes(self, shape: Sequence[Any] | None = None) -> str:
        """The sizes of a shape, or of the result, with commas."""
        return ", ".join(map(self.w.size, self.shape if shape is None else shape))

    def place(self, dim: int) -> int:
        """A dimension of the first argument, counted from the start."""
        return dim % rank_of(self.arguments["x"])

    def places(self, dims: Any) -> list[int]:
        """Dimensions of the first argument; all of them where none are given."""
        listed = [] if dims is None else [dims] if isinstance(dims, int) else dims
        return sorted({self.place(it) for it in listed}) or [*range(rank_of(self.arguments["x"]))]

    def squeezed(self, expr: Expr, places: Sequence[int], keepdim: bool = False) -> Expr:
        """The expression without dimensions of the first argument that have one element."""
        rank = rank_of(self.arguments["x"])
        if keepdim:
            return expr
        if len(places) == rank:
            return expr.dot("reshape([1])") if rank > 1 else expr
        if len(places) == 1:
            return expr.dot(f"squeeze_dim::<{rank - 1}>({places[0]})")
        return expr.dot(f"squeeze_dims::<{rank - len(places)}>(&{[*places]})")

    def range(self, start: Any, end: Any, length: Any) -> str:
        """A range of Rust; negative numbers count from the end, as in Burn."""
        first = "0" if start is None else self.w.size(start)
        stop = value_of(end)
        is_end = end is None or (isinstance(stop, int) and stop >= END) or str(stop) == str(length)
        last = "" if is_end else self.w.size(end)
        return f"{'' if first == '0' and not last else first}..{last}"


def is_number(x: Any) -> bool:
    """True for a number of the program, and for a node that is one."""
    return not isinstance(value_of(x), torch.Tensor)


def same_shape(x: Any, y: Any) -> bool:
    return [*map(str, value_of(x).shape)] == [*map(str, value_of(y).shape)]


def common_kind(*values: Any) -> str:
    kinds = {kind_of(value) for value in values}
    return next(it for it in ("Float", "Int", "Bool") if it in kinds)
