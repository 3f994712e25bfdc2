"""Reads the pickles of `torch.save` without running any code in them. Imports no torch.

Nothing that a pickle names is imported or called: names become `Symbol`s, calls of the few functions that rebuild
tensors become `PickledTensor`s, and every other object becomes an `Opaque`, which remembers what it was to be. The
tensors and plain values of an object get dotted names by `flatten`.

`torch.load(weights_only=True)` runs nothing either, but hostile files make it hang, crash or take any amount of memory,
and it needs torch, which `burnlike inspect` does not load.
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..._dtypes import DTYPES
from ...errors import ArgumentError, RecordFormatError, nearest
from ..bytes.budget import MAX_DIMENSIONS, MAX_NAME, Budget, TensorCost
from ..bytes.source import Source
from ..layout import join
from ..metadata import ENTRY, dump_versions

STORAGE_DTYPES = {dtype.storage: dtype.record for dtype in DTYPES if dtype.storage}
STORAGE_DTYPES |= {"QInt8Storage": "I8", "QUInt8Storage": "U8", "QInt32Storage": "I32"}
"""torch's storage classes -> dtype, of quantized ones that of their integers; an UntypedStorage has bytes."""

_DTYPES = {dtype.torch: dtype.record for dtype in DTYPES if dtype.torch}

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
    """The words in which messages speak of something that is no plain value."""
    named = item.symbol if isinstance(item, Opaque | Tagged) else item
    return (str(named) if isinstance(named, Symbol) else type(item).__name__.removeprefix("Pickled"))[:80]


def called(function: Any, arguments: Any) -> Any:
    """The result of a call that rebuilds tensors or containers; an Opaque for all others."""
    symbol = symbol_of(function)
    built = _made(str(symbol), arguments, symbol) if isinstance(arguments, tuple) else None
    return Opaque(symbol) if built is None else built


def _made(name: str, arguments: tuple[Any, ...], symbol: Symbol) -> Any:
    """The result of the function of this name for its arguments; None if it is not known, or not for such arguments."""
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


def load_pickle(file: Any, source: Source) -> tuple[Any, Mapping[str, Storage]]:
    """Read one pickle from where `file` stands, to its end; `source` is what the file is in.

    Returns plain values, lists and dicts of them, and the classes above; and the storages that it refers to, by key.
    """
    path, reader = source.path, _Reader(file, source.budget)
    try:
        return reader.load(), reader.storages
    except RecordFormatError as error:
        if str(error).startswith(f"{path}: "):  # the budget's
            raise
        raise RecordFormatError(f"{path}: {error}") from error
    except Exception as error:  # a damaged pickle makes the reader fail in any way
        raise RecordFormatError(
            f"{path}: its pickle is damaged ({type(error).__name__}: {error!s:.100}); save or fetch it again"
        ) from error


# The one in Python: that in C takes memory for whatever number a pickle names.
_Unpickler: Any = pickle._Unpickler

_INSTRUCTIONS = (
    *(pickle.PROTO, pickle.STOP, pickle.MARK, pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.BINPERSID),
    *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1),
    *(pickle.BINFLOAT, pickle.BINSTRING, pickle.SHORT_BINSTRING),
    *(pickle.BINBYTES, pickle.SHORT_BINBYTES, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2),
    *(pickle.TUPLE3, pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_DICT),
    *(pickle.BINGET, pickle.LONG_BINGET, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE),
)
"""What is read as Python does; `torch.save` writes these, and those that `_Reader` reads in its own way."""


_INSTRUCTIONS_AT_ONCE, _STEPS_EACH = 1000, 6
_TENSOR = TensorCost(memory=4400, steps=600, file_bytes=160)

_MARK_BYTES = 100
_MEMORY = [16] * 256
for _codes, _bytes in (
    ((pickle.MARK,), _MARK_BYTES),
    ((pickle.TUPLE, pickle.APPENDS, pickle.SETITEMS, pickle.ADDITEMS, pickle.FROZENSET), 90 - _MARK_BYTES),
    ((pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.EMPTY_LIST, pickle.EMPTY_DICT, pickle.EMPTY_SET), 110),
    ((pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINSTRING, pickle.SHORT_BINSTRING), 110),
    ((pickle.BINBYTES, pickle.SHORT_BINBYTES, pickle.BININT, pickle.BININT2, pickle.LONG1, pickle.BINFLOAT), 80),
    ((pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE), 130),
    ((pickle.SETITEM, pickle.REDUCE, pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.NEWOBJ, pickle.BINPERSID), 200),
):
    for _code in _codes:
        _MEMORY[_code[0]] = _bytes
"""Bytes of memory that an instruction takes at most, beside the bytes that stand behind it."""


class _Reader(_Unpickler):
    """Takes time and memory in proportion to the pickle: nothing is copied, and only texts and integers are hashed.

    Tuples have no hash here, as a tuple of a tuple of a tuple, each twice in the next, takes forever to hash, and a
    million of them in each other overflow the stack.
    """

    dispatch: ClassVar[dict[int, Any]] = {it[0]: _Unpickler.dispatch[it[0]] for it in _INSTRUCTIONS}

    def __init__(self, file: Any, budget: Budget) -> None:
        super().__init__(file, encoding="utf-8")
        self.storages: dict[str, Storage] = {}
        self._budget = budget

    def load(self) -> Any:
        self.read, self.readline = self._file_read, self._file_readline
        self.metastack, self.stack, self.proto = [], [], 0
        self.append = self.stack.append
        read, dispatch, take = self.read, self.dispatch, self._budget.take
        try:
            while True:
                memory = 0
                # Not asked at each, as many an instruction does less than the asking.
                for _ in range(_INSTRUCTIONS_AT_ONCE):
                    code = read(1)
                    if not code:
                        raise EOFError
                    memory += _MEMORY[code[0]]
                    dispatch[code[0]](self)
                take(memory, _INSTRUCTIONS_AT_ONCE * _STEPS_EACH)
        except pickle._Stop as stop:  # pyright: ignore
            return stop.value
        except KeyError as error:
            raise RecordFormatError(f"its pickle has the instruction or reference {error}, which is not read") from None

    def find_class(self, module: str, name: str, /) -> Symbol:
        """A name, never the thing."""
        return Symbol(module, name)

    def persistent_load(self, pid: Any) -> Storage | Symbol:
        """Storages are what torch pickles by reference, and classes of modules in old files."""
        match pid:
            case ("module", Symbol() as kind, *_):
                return kind
            case ("storage", Symbol() as kind, str(key), _, _) | ("storage", Symbol() as kind, str(key), _, _, None):
                dtype = None if kind.name == "UntypedStorage" else STORAGE_DTYPES.get(kind.name, kind.name)
                return self.storages.setdefault(key, Storage(key, dtype))
        raise RecordFormatError("it refers to something that is no storage of tensors")

    def _frame(self) -> None:
        """Go over a frame's length: frames say how to read faster, and nothing else."""
        self.read(8)

    def _set_item(self) -> None:
        item, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][_key(key)] = item

    def _set_items(self) -> None:
        items = self.pop_mark()
        target = self.stack[-1]
        for index in range(0, len(items), 2):
            target[_key(items[index])] = items[index + 1]

    def _text(self) -> None:
        self.append(self.read(int.from_bytes(self.read(4), "little")).decode())

    def _short_text(self) -> None:
        self.append(self.read(self.read(1)[0]).decode())

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = result = called(self.stack[-1], arguments)
        if isinstance(result, PickledTensor) and 0 not in result.shape:
            self._budget.add_tensor(_TENSOR)

    def _make(self) -> None:
        self.stack.pop()
        self.stack[-1] = Opaque(symbol_of(self.stack[-1]))

    def _build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Opaque):
            self.stack[-1].state = state
        elif isinstance(self.stack[-1], PickledMap) and isinstance(state, dict):
            self.stack[-1].noted = state.get("_metadata")

    dispatch[pickle.FRAME[0]] = _frame
    dispatch[pickle.SETITEM[0]] = _set_item
    dispatch[pickle.SETITEMS[0]] = _set_items
    # Python's own let lone surrogates pass, which no other format takes.
    dispatch[pickle.BINUNICODE[0]] = _text
    dispatch[pickle.SHORT_BINUNICODE[0]] = _short_text
    # Sets as lists: a set would hash what is in it.
    dispatch[pickle.EMPTY_SET[0]] = _Unpickler.load_empty_list
    dispatch[pickle.ADDITEMS[0]] = _Unpickler.load_appends
    dispatch[pickle.FROZENSET[0]] = _Unpickler.load_list
    dispatch[pickle.REDUCE[0]] = _reduce
    dispatch[pickle.NEWOBJ[0]] = _make
    dispatch[pickle.BUILD[0]] = _build


def _key(key: Any) -> Any:
    """A key of a map; an Opaque in place of what is no text and no integer."""
    if isinstance(key, str | Opaque) or (type(key) is int and key.bit_length() <= MAX_INT_BITS):
        return key
    return Opaque(Symbol("builtins", type(key).__name__))


_MAX_DEPTH = 64
_PART_BYTES, _PART_STEPS = 64, 28
_TENSOR_BYTES, _TENSOR_STEPS = 360, 120
_NOTED_BYTES, _NOTED_STEPS = 300, 30
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")


def flatten(
    content: Any, top_level_key: str | None, source: Source
) -> tuple[dict[str, PickledTensor], dict[str, Any], str | None]:
    """Divide what a pickle has, a map or a whole module, into tensors and values; with a key only what is under it.

    A small pickle can refer to one list a million times, which the budget of `source` ends.

    Returns:
        Name -> tensor; the plain values, in lists and maps as they were, what state dicts have beside tensors as
        entries (`burnlike.record.state_dict.module_state`); and what torch notes in state dicts about modules, as text.
    """
    content, path = _as_map(content), source.path
    if top_level_key is not None:
        names = [key for key in content if isinstance(key, str)] if isinstance(content, dict) else []
        if top_level_key not in names:
            raise ArgumentError(
                f"{path}: expected a key among {', '.join(map(repr, names[:10])) or 'none'}, got top_level_key="
                f"{top_level_key!r}{nearest(top_level_key, names)}"
            )
        content = _as_map(content[top_level_key])
    walk = _Walk(source)
    if not isinstance(content, dict):
        raise walk.refused("", content)
    values = walk.map(content, "", 0)
    return walk.tensors, values, None if walk.versions is None else dump_versions(walk.versions)


class _Walk:
    def __init__(self, source: Source) -> None:
        self.tensors: dict[str, PickledTensor] = {}
        self.versions: dict[str, Any] | None = None
        self._path = source.path
        self._budget = source.budget

    def map(self, items: Mapping[Any, Any], prefix: str, depth: int) -> dict[str, Any]:
        """The plain values in a map; its tensors are noted."""
        values: dict[str, Any] = {}
        noted = items.noted if isinstance(items, PickledMap) else None
        is_state_dict = isinstance(noted, dict)
        if is_state_dict:
            self.versions = self.versions or {}
            for path, value in self._plain(noted).items():
                self._budget.take(_NOTED_BYTES + len(prefix), _NOTED_STEPS)
                if isinstance(value, dict):
                    self.versions[join(prefix, path) if path else prefix] = value
        for key, item in items.items():
            name = self._name(prefix, key)
            if str(key) in values:
                raise RecordFormatError(f"{self._path}: has two values with the name '{name}'")
            if (is_state_dict or name.split(".")[-1] == "_extra_state") and not isinstance(item, PickledTensor):
                values[str(key)] = {ENTRY: self.entry(item, name, "", depth + 1)}
            elif (part := self.part(_as_map(item), name, depth + 1)) is not _NOTHING:
                values[str(key)] = part
        return values

    def entry(self, item: Any, name: str, path: str, depth: int) -> Any:
        """The part at `path` of the entry `name` of a state dict, as `encode_tree` has it."""
        at = join(name, path) if path else name
        self._count(at, depth)
        if isinstance(item, PickledTensor):
            self._note(item, at)
            return {"$tensor": path}
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, Symbol) and item.module == "torch" and item.name in DTYPE_NAMES:
            return {"$dtype": item.name}
        if isinstance(item, Tagged):
            return {item.tag: self.entry(item.content, name, path, depth + 1)}
        if isinstance(item, list | tuple):
            items = [self.entry(value, name, join(path, index), depth + 1) for index, value in enumerate(item)]
            return {"$tuple": items} if isinstance(item, tuple) else items
        if isinstance(item, dict):
            parts: dict[Any, Any] = {}
            for key, value in item.items():
                self._name(at, key)
                parts[key] = self.entry(value, name, join(path, key), depth + 1)
            if all(isinstance(key, str) and not key.startswith("$") for key in parts):
                return parts
            return {"$items": [[key, value] for key, value in parts.items()]}
        raise self.refused(at, item)

    def _plain(self, noted: Mapping[Any, Any], depth: int = 0) -> dict[str, Any]:
        """The plain values among the noted ones; torch nests them deeply."""
        plain: dict[str, Any] = {}
        for key, value in noted.items():
            self._count("_metadata", depth)
            if isinstance(key, str) and (value is None or isinstance(value, bool | int | float | str)):
                plain[key] = value
            elif isinstance(key, str) and isinstance(value, dict) and depth < 3:
                plain[key] = self._plain(value, depth + 1)
        return plain

    def _name(self, prefix: str, key: Any) -> str:
        if isinstance(key, Opaque):
            raise RecordFormatError(
                f"{self._path}: a key of '{prefix[:80]}' is of the type {key.symbol.name}, expected a text or a small"
                " integer"
            )
        name = f"{prefix}.{key}" if prefix else str(key)
        if len(name) > MAX_NAME:
            raise RecordFormatError(f"{self._path}: '{name[:80]}...' is longer than {MAX_NAME} characters")
        return name

    def _count(self, name: str, depth: int) -> None:
        self._budget.take(_PART_BYTES, _PART_STEPS)
        if depth > _MAX_DEPTH:
            raise RecordFormatError(f"{self._path}: '{name[:80]}' is nested too deeply or refers to itself")

    def _note(self, item: PickledTensor, name: str) -> None:
        if name in self.tensors:
            raise RecordFormatError(f"{self._path}: has two tensors with the name '{name}'")
        self.tensors[name] = item
        self._budget.take(_TENSOR_BYTES + len(name), _TENSOR_STEPS)

    def part(self, item: Any, name: str, depth: int) -> Any:
        """The plain value of one part, `_NOTHING` if it has only tensors."""
        self._count(name, depth)
        if isinstance(item, PickledTensor):
            self._note(item, name)
            return _NOTHING
        if isinstance(item, Tagged) and item.tag == "$set":
            item = item.content
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if not isinstance(item, list | tuple | dict):
            raise self.refused(name, item)
        before = len(self.tensors)
        mapping = self.map(item if isinstance(item, dict) else dict(enumerate(item)), name, depth)
        if not isinstance(item, dict) and len(self.tensors) == before:
            return [*mapping.values()]
        return mapping if mapping or not item else _NOTHING

    def refused(self, name: str, item: Any) -> RecordFormatError:
        where = f"'{name[:80]}' is" if name else "expected a map of tensors, got"
        why = ", which only code could make; nothing of a file is run" if name or isinstance(item, Opaque) else ""
        return RecordFormatError(
            f"{self._path}: {where} {kind_of(item)}{why}. Save a state_dict, or read only a part by top_level_key"
        )


_NOTHING: Any = object()


def _as_map(item: Any) -> Any:
    """A pickled module as the map that its `state_dict` would be, nested; anything else as it is."""
    if not isinstance(item, Opaque) or not isinstance(item.state, dict):
        return item
    parameters, buffers, modules = (item.state.get(name) for name in _MODULE_PARTS)
    if not (isinstance(parameters, dict) and isinstance(buffers, dict) and isinstance(modules, dict)):
        return item
    passing = item.state.get("_non_persistent_buffers_set")
    passing = passing.content if isinstance(passing, Tagged) else passing
    left_out = passing if isinstance(passing, list | tuple) else ()
    held = {**parameters, **{key: buffer for key, buffer in buffers.items() if key not in left_out}, **modules}
    return {key: value for key, value in held.items() if value is not None}
