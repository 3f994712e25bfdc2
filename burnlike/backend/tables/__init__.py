"""The tables of functions that a backend offers: a Protocol for each kind and family, and beside it the same in torch.

Functions take and return torch tensors, never change an operand, and get arguments that were checked already; indices
come as int64.
"""

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from typing_extensions import get_protocol_members

from .arithmetic import (
    ArithmeticOps,
    ComparisonOps,
    FloatMathOps,
    InequalityOps,
    IntMathOps,
    LogicOps,
    TorchArithmeticOps,
    TorchComparisonOps,
    TorchFloatMathOps,
    TorchInequalityOps,
    TorchIntMathOps,
    TorchLogicOps,
)
from .conv import ConvOps, PoolOps, TorchConvOps, TorchPoolOps
from .creation import CreationOps, NumericCreationOps, TorchCreationOps, TorchNumericCreationOps, countable
from .layers import (
    ActivationOps,
    LayerOps,
    QuantizationOps,
    TorchActivationOps,
    TorchLayerOps,
    TorchQuantizationOps,
)
from .linalg import LinalgOps, TorchLinalgOps
from .reductions import (
    ExtremeOps,
    ReductionOps,
    SortOps,
    StatsOps,
    TorchExtremeOps,
    TorchIntReductionOps,
    TorchReductionOps,
    TorchSortOps,
    TorchStatsOps,
)
from .shape import (
    IndexOps,
    NumericIndexOps,
    PaddingOps,
    ShapeOps,
    TorchIndexOps,
    TorchNumericIndexOps,
    TorchPaddingOps,
    TorchShapeOps,
)
from .signal import GridOps, SignalOps, TorchGridOps, TorchSignalOps

__all__ = [
    "TABLES",
    "ActivationOps",
    "BoolOps",
    "FloatOps",
    "IntOps",
    "ModuleOps",
    "TorchActivationOps",
    "TorchBoolOps",
    "TorchFloatOps",
    "TorchIntOps",
    "TorchModuleOps",
    "functions_of",
    "map_ops",
    "missing_ops",
    "op_names",
]


class BasicOps(CreationOps, ShapeOps, IndexOps, ComparisonOps, Protocol):
    """Functions that Float, Int and Bool tensors share."""


class TorchBasicOps(TorchCreationOps, TorchShapeOps, TorchIndexOps, TorchComparisonOps):
    """Implements `BasicOps`."""


class NumericOps(
    BasicOps,
    NumericCreationOps,
    PaddingOps,
    ArithmeticOps,
    ReductionOps,
    ExtremeOps,
    SortOps,
    InequalityOps,
    NumericIndexOps,
    Protocol,
):
    """Functions that Float and Int tensors share."""


class TorchNumericOps(
    TorchBasicOps,
    TorchNumericCreationOps,
    TorchPaddingOps,
    TorchArithmeticOps,
    TorchReductionOps,
    TorchExtremeOps,
    TorchSortOps,
    TorchInequalityOps,
    TorchNumericIndexOps,
):
    """Implements `NumericOps` for Float; `TorchIntOps` replaces what torch promotes."""


class FloatOps(NumericOps, StatsOps, FloatMathOps, QuantizationOps, Protocol):
    """Functions of Float tensors.

    Functions:
        detach: The same values and storage without their history.
    """

    def detach(self, tensor: Tensor, /) -> Tensor: ...


class TorchFloatOps(TorchNumericOps, TorchStatsOps, TorchFloatMathOps, TorchQuantizationOps):
    """Implements `FloatOps`."""

    detach: Any = staticmethod(Tensor.detach)


class IntOps(NumericOps, IntMathOps, Protocol):
    """Functions of Int tensors.

    Functions:
        arange: start, start + step, ... below `end`; step > 0; `[n]`.
    """

    def arange(self, start: int, end: int, step: int, dtype: torch.dtype, device: torch.device, /) -> Tensor: ...


class TorchIntOps(TorchIntMathOps, TorchIntReductionOps, TorchNumericOps):
    """Implements `IntOps`: results keep the operands' dtype, where torch would promote to int64 or float."""

    @staticmethod
    def arange(start: int, end: int, step: int, dtype: torch.dtype, device: torch.device, /) -> Tensor:
        return torch.arange(start, end, step, dtype=countable(dtype), device=device).to(dtype)


class BoolOps(BasicOps, LogicOps, Protocol):
    """Functions of Bool tensors."""


class TorchBoolOps(TorchBasicOps, TorchLogicOps):
    """Implements `BoolOps`."""


class ModuleOps(ConvOps, PoolOps, LayerOps, LinalgOps, SignalOps, GridOps, Protocol):
    """Convolutions, pools, attention and what else layers are made of, on Float tensors."""


class TorchModuleOps(TorchConvOps, TorchPoolOps, TorchLayerOps, TorchLinalgOps, TorchSignalOps, TorchGridOps):
    """Implements `ModuleOps`."""


TABLES: dict[str, Any] = {
    "float_ops": FloatOps,
    "int_ops": IntOps,
    "bool_ops": BoolOps,
    "module_ops": ModuleOps,
    "activation_ops": ActivationOps,
}
Table = TypeVar("Table")


@cache
def op_names() -> tuple[str, ...]:
    """The names of the functions of Float, Int and Bool tensors together."""
    names = [get_protocol_members(table) for table in (FloatOps, IntOps, BoolOps)]
    return tuple(sorted(frozenset[str]().union(*names)))


def missing_ops(backend: Any) -> list[str]:
    """The functions that the tables of `backend` lack, as in `float_ops.exp`."""
    return [
        f"{table}.{name}"
        for table, protocol in TABLES.items()
        for name in sorted(get_protocol_members(protocol))
        if not callable(getattr(getattr(backend, table, None), name, None))
    ]


def map_ops(table: Table, change: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Table:
    """A table with each function replaced by `change(name, function)`: to record, time or restrict them.

    Example:
        >>> from burnlike.backend import Cpu, map_ops
        >>> seen = []
        >>> def note(name, function):
        ...     return lambda *args, **kwargs: (seen.append(name), function(*args, **kwargs))[1]
        >>> table = map_ops(Cpu().activation_ops, note)
    """
    changed: Any = SimpleNamespace(**{name: change(name, value) for name, value in functions_of(table).items()})
    return changed


def functions_of(table: Any) -> dict[str, Callable[..., Any]]:
    """The functions of a table by name, those of its `__getattr__` included."""
    names = [name for name in dir(table) if not name.startswith("_")]
    if hasattr(type(table), "__getattr__"):
        members = sorted(frozenset[str]().union(*map(get_protocol_members, TABLES.values())))
        names += [name for name in members if name not in names and callable(getattr(table, name, None))]
    return {name: getattr(table, name) for name in names}
