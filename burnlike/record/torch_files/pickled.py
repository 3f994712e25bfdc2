"""The objects in pickles of `torch.save` beside plain values: tensors, storages, and those that stay unread.

Imports no torch.
"""

from collections.abc import Callable, Mapping
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

    def extend(self, items: object) -> None:
        """Nothing; pickles fill lists so."""

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


def called(function: Any, arguments: Any) -> Any:
    """The result of a call that rebuilds tensors or containers; an Opaque for all others."""
    symbol = symbol_of(function)
    rebuild = _REBUILD.get(symbol)
    found = None if rebuild is None or not isinstance(arguments, tuple) else rebuild(arguments)
    return Opaque(symbol) if found is None else found


def _items(arguments: Any) -> Any:
    match arguments:
        case (list() | tuple() as items,):
            return items
    return None


def _set(arguments: Any) -> Any:
    items = _items(arguments)
    return None if items is None else Tagged("$set", items, Symbol("builtins", "set"))


def _device(arguments: Any) -> Tagged | None:
    match arguments:
        case (str(kind),):
            return Tagged("$device", kind, Symbol("torch", "device"))
        case (str(kind), int(index)):
            return Tagged("$device", f"{kind}:{index}", Symbol("torch", "device"))
    return None


def _quantized(arguments: Any) -> Tagged | None:
    match arguments:
        case (Storage() as storage, offset, shape, strides, (Symbol("torch", scheme), scale, zero_point, *axis), *_):
            if not scheme.startswith("per_") or storage.dtype not in ("I8", "U8", "I32"):
                return None
            values = _tensor(storage, storage.dtype, offset, shape, strides, None)
            parts = {"values": values, "scale": scale, "zero_point": zero_point}
            if axis:
                parts["axis"] = axis[0]
            return Tagged("$quantized", parts, Symbol("torch._utils", "_rebuild_qtensor"))
    return None


def _typed(arguments: Any) -> PickledTensor | None:
    match arguments:
        case (Storage() as storage, offset, shape, strides, *rest) if storage.dtype is not None:
            return _tensor(storage, storage.dtype, offset, shape, strides, [*rest, None, None, None][2])
    return None


def _untyped(arguments: Any) -> PickledTensor | None:
    match arguments:
        case (Storage() as storage, offset, shape, strides, _, _, Symbol("torch", name), *rest) if name in _DTYPES:
            return _tensor(storage, _DTYPES[name], offset, shape, strides, [*rest, None][0])
    return None


def _parameter(arguments: Any) -> PickledTensor | None:
    return arguments[0] if arguments and isinstance(arguments[0], PickledTensor) else None


def _subclass(arguments: Any) -> Any:
    """Classes of tensors that are no more than torch's own."""
    match arguments:
        case (inner, Symbol() as kind, tuple(inner_arguments), _) if kind in _TENSOR_CLASSES:
            return called(inner, inner_arguments)
    return None


_TENSOR_CLASSES = {
    *(Symbol("torch.nn.parameter", "Parameter"), Symbol("torch.nn.parameter", "Buffer"), Symbol("torch", "Tensor")),
}

_REBUILD: Mapping[Symbol, Callable[[Any], Any]] = {
    Symbol("collections", "OrderedDict"): lambda arguments: None if arguments else PickledMap(),
    Symbol("torch", "Size"): _items,
    Symbol("torch", "device"): _device,
    Symbol("builtins", "set"): _set,
    Symbol("__builtin__", "set"): _set,
    Symbol("torch._utils", "_rebuild_qtensor"): _quantized,
    Symbol("torch._utils", "_rebuild_tensor"): _typed,
    Symbol("torch._utils", "_rebuild_tensor_v2"): _typed,
    Symbol("torch._utils", "_rebuild_tensor_v3"): _untyped,
    Symbol("torch._utils", "_rebuild_parameter"): _parameter,
    Symbol("torch._utils", "_rebuild_parameter_with_state"): _parameter,
    Symbol("torch._tensor", "_rebuild_from_type_v2"): _subclass,
}
"""Functions that pickles may call -> what makes the result of the arguments; None for arguments of another kind."""


def _tensor(storage: Storage, dtype: str, offset: Any, shape: Any, strides: Any, metadata: Any) -> PickledTensor:
    if not (isinstance(shape, tuple) and isinstance(strides, tuple) and len(shape) == len(strides) <= MAX_DIMENSIONS):
        raise RecordFormatError(f"a tensor's shape and strides are not as many integers each, at most {MAX_DIMENSIONS}")
    if not all(type(it) is int and 0 <= it < 1 << MAX_INT_BITS for it in (offset, *shape, *strides)):
        raise RecordFormatError("a tensor's offset, shape or strides are no positive integers")
    return PickledTensor(storage, dtype, offset, shape, strides, metadata)
