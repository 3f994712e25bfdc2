"""A tensor as text. Only the elements that are shown are read."""

import dataclasses
import decimal
import math
from array import array
from collections.abc import Callable
from typing import Any

import torch

from ...errors import TensorValueError
from ..core.base import B, D, K, TensorBase
from ..core.dtypes import dtype_name
from ..core.kinds import Bool, Float


@dataclasses.dataclass(frozen=True)
class PrintOptions:
    """Options for showing tensors.

    Attributes:
        threshold: tensors of more elements than this are shown in part.
        edge_items: how many elements at either end of each dimension are shown then.
        precision: digits after the point; None for as many as tell the number from all others.
    """

    threshold: int = 1000
    edge_items: int = 3
    precision: int | None = None


class _Options:
    # The one place of global state: what a repr looks like is the reader's choice, and a repr takes no arguments.
    current = PrintOptions()


def set_print_options(options: PrintOptions) -> None:
    """Set the options for showing all tensors from now on. Torch: `torch.set_printoptions`. Differs: three fields."""
    _Options.current = options


class DisplayMethods(TensorBase[B, D, K]):
    """A tensor as text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _shown(self, _Options.current.precision)

    def __str__(self) -> str:
        return _shown(self, _Options.current.precision)

    def __format__(self, form: str) -> str:
        """`f"{x:.3}"` shows three digits after the point. Raises TensorValueError: another form."""
        if not form:
            return str(self)
        digits = form.removesuffix("f").removeprefix(".")
        if form[0] != "." or not digits.isdecimal():
            raise TensorValueError("Format", f"expected a number of digits such as '.3', got {form!r}")
        return _shown(self, int(digits))


def _shown(tensor: Any, precision: int | None) -> str:
    spec, inner = tensor.spec, tensor.inner
    return (
        "Tensor {\n  data:\n"
        f"{_elements(tensor, precision)},\n"
        f"  shape:  {list(inner.shape)},\n"
        f"  device:  {inner.device},\n"
        f'  backend:  "{spec.backend.name}",\n'
        f'  kind:  "{spec.kind.name}",\n'
        f'  dtype:  "{dtype_name(spec.dtype)}",\n'
        "}"
    )


def _elements(tensor: Any, precision: int | None) -> str:
    ops, inner = tensor.spec.ops, tensor.inner
    shape, edge = list(inner.shape), _Options.current.edge_items
    parts = [False] * len(shape)
    if inner.numel() > _Options.current.threshold:
        parts = [size > 2 * edge for size in shape]
    try:
        for dim, size in enumerate(shape):
            if parts[dim]:
                first, _, last = ops.split(inner, [edge, size - 2 * edge, edge], dim)
                inner = ops.cat([first, last], dim)
        values = ops.read_list(inner)
    except RuntimeError:  # a tensor without elements: of the meta device, or of a trace
        return "[...]"
    return _nested(values, 0, [edge if part else None for part in parts], _writer(tensor.spec, precision))


def _nested(values: list[Any], depth: int, edges: list[int | None], write: Callable[[Any], str]) -> str:
    edge, innermost = edges[depth], depth == len(edges) - 1
    items = [write(value) if innermost else _nested(value, depth + 1, edges, write) for value in values]
    if innermost:
        if edge is not None:
            items.insert(edge, "...")
        return f"[{', '.join(items)}]"
    indent = "\n" + " " * (depth + 1)
    if edge is None:
        return f"[{f',{indent}'.join(items)}]"
    before, after = f",{indent}".join(items[:edge]), f",{indent}".join(items[edge:])
    return f"[{before},{indent}...{indent}{after}]"


def _writer(spec: Any, precision: int | None) -> Callable[[Any], str]:
    if spec.kind is Bool:
        return lambda it: "true" if it else "false"
    if spec.kind is not Float:
        return str
    if precision is not None:
        return lambda it: _number(f"{it:.{precision}f}")
    return (lambda it: _number(repr(it))) if spec.dtype is torch.float64 else _shortest_single


def _shortest_single(value: float) -> str:
    """The shortest text that is read back as the same float32; halves are shown as the float32 that they are."""
    for digits in range(1, 10) if math.isfinite(value) else ():
        nearest = float(decimal.Context(digits, decimal.ROUND_HALF_UP).create_decimal_from_float(value))
        if array("f", [nearest])[0] == value:
            return _number(repr(nearest))
    return _number(repr(value))


def _number(text: str) -> str:
    """Python's text of a number in Burn's form: 1e-05 is 1e-5, 1e+16 is 1e16, nan is NaN."""
    digits, mark, exponent = text.partition("e")
    if mark:
        return f"{digits}e{int(exponent)}"
    return "NaN" if text == "nan" else text
