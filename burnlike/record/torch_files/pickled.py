"""The objects in pickles of `torch.save` beside plain values: tensors, storages, and those that stay unread.

Imports no torch.
"""

from dataclasses import dataclass, field
from typing import Any

from ..._dtypes import DTYPES
from ...errors import RecordFormatError
from ..bytes.budget import MAX_DIMENSIONS

STORAGE_DTYPES = {it.storage: it.record for it in DTYPES if it.storage}
STORAGE_DTYPES |= {"QInt8Storage": "I8", "QUInt8Storage": "U8", "QInt32Storage": "I32"}
"""torch's storage classes -> dtype, of quantized ones that of their integers; an UntypedStorage has bytes."""

_DTYPES = {it.torch: it.record for it in DTYPES if it.torch}

DTYPE_NAMES = frozenset({*_DTYPES, "qint8", "quint8", "qint32"})
"""What torch calls its dtypes."""

MAX_INT_BITS = 60
"""Integers that are hashed have no more: hashes of larger ones can be made equal on purpose."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something that a pickle names, as `collections.OrderedDict`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Opaque:
    """An object that only code could make; `state` is what its attributes were to be, where the pickle says so."""

    symbol: Symbol
    state: Any = None

    def append(self, item: object) -> None:
        """Nothing; pickles fill lists so."""

    extend = append

    def __setitem__(self, key: object, item: object) -> None:
        """Nothing; pickles fill maps so."""


class PickledMap(dict[Any, Any]):
    """An OrderedDict; `noted` is what torch notes about the modules of a state dict (`_metadata`), if it does."""

    noted: Any = None


@dataclass(frozen=True, slots=True)
class Tagged:
    """Something that is not a plain value, that `encode_tree` has a tag for; its content is not encoded."""

    tag: str
    content: Any
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that tensors share: its name in the file, and the dtype of its elements.

    The dtype is None for bytes, and the name of the class where records have no such type.
    """

    key: str
    dtype: str | None


@dataclass(frozen=True, slots=True)
class PickledTensor:
    """A tensor: where its elements are in a storage."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    metadata: Any = field(default=None, hash=False)


def symbol_of(item: Any) -> Symbol:
    if not isinstance(item, Symbol):
        raise RecordFormatError("it calls something that has no name")
    return item


_TENSOR_CLASSES = {"torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer", "torch.Tensor"}


def kind_of(item: Any) -> str:
    """What messages call something that is no plain value."""
    named = item.symbol if isinstance(item, Opaque | Tagged) else item
    return (str(named) if isinstance(named, Symbol) else type(item).__name__)[:80]


def called(function: Any, arguments: Any) -> Any:
    """The result of a call that rebuilds tensors or containers; an Opaque for all others."""
    symbol = symbol_of(function)
    found = _made(str(symbol), arguments, symbol) if isinstance(arguments, tuple) else None
    return Opaque(symbol) if found is None else found


def _made(name: str, arguments: tuple[Any, ...], symbol: Symbol) -> Any:
    """What the function of this name makes of its arguments; None if it is not known, or not for such arguments."""
    match name, arguments:
        case (
            "torch._utils._rebuild_tensor_v2" | "torch._utils._rebuild_tensor",
            (Storage(dtype=str(dtype)) as storage, offset, shape, strides, *rest),
        ):
            return _tensor(storage, dtype, offset, shape, strides, [*rest, None, None, None][2])
        case ("torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state", (tensor, *_)):
            return tensor if isinstance(tensor, PickledTensor) else None
        case "collections.OrderedDict", ():
            return PickledMap()
        case "torch.Size", (list() | tuple() as items,):
            return items
        case "builtins.set" | "__builtin__.set", (list() | tuple() as items,):
            return Tagged("$set", items, Symbol("builtins", "set"))
        case "torch.device", (str(kind),):
            return Tagged("$device", kind, symbol)
        case "torch.device", (str(kind), int(index)):
            return Tagged("$device", f"{kind}:{index}", symbol)
        case (
            "torch._utils._rebuild_tensor_v3",
            (Storage() as storage, offset, shape, strides, _, _, Symbol("torch", dtype), *rest),
        ) if dtype in _DTYPES:
            return _tensor(storage, _DTYPES[dtype], offset, shape, strides, [*rest, None][0])
        # Classes of tensors that are no more than torch's own.
        case "torch._tensor._rebuild_from_type_v2", (inner, Symbol() as kind, tuple(inner_arguments), _):
            return called(inner, inner_arguments) if str(kind) in _TENSOR_CLASSES else None
        case (
            "torch._utils._rebuild_qtensor",
            (Storage() as storage, offset, shape, strides, (Symbol("torch", scheme), scale, zero_point, *axis), *_),
        ) if scheme.startswith("per_") and storage.dtype in ("I8", "U8", "I32"):
            values = _tensor(storage, storage.dtype, offset, shape, strides, None)
            parts = {"values": values, "scale": scale, "zero_point": zero_point}
            return Tagged("$quantized", {**parts, "axis": axis[0]} if axis else parts, symbol)
    return None


def _tensor(storage: Storage, dtype: str, offset: Any, shape: Any, strides: Any, metadata: Any) -> PickledTensor:
    if not (isinstance(shape, tuple) and isinstance(strides, tuple) and len(shape) == len(strides) <= MAX_DIMENSIONS):
        raise RecordFormatError(f"a tensor's shape and strides are not as many integers each, at most {MAX_DIMENSIONS}")
    if not all(type(it) is int and 0 <= it < 1 << MAX_INT_BITS for it in (offset, *shape, *strides)):
        raise RecordFormatError("a tensor's offset, shape or strides are no positive integers")
    return PickledTensor(storage, dtype, offset, shape, strides, metadata)
