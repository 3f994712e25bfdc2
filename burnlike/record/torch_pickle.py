"""Reading the pickles of `torch.save` without running what they ask for. Imports no torch.

Nothing that a pickle names is imported or called: names become `Symbol`s, calls of the few functions that rebuild
tensors become `PickledTensor`s, and every other object becomes an `Opaque`, which remembers what it was to be.
"""

import pickle
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ..errors import RecordFormatError

STORAGE_DTYPES = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
}
"""torch's storage classes -> dtype; an UntypedStorage has bytes."""

_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "complex64": "C64",
    "bool": "BOOL",
    **{f"{'u' if kind == 'U' else ''}int{bits}": f"{kind}{bits}" for kind in "IU" for bits in (8, 16, 32, 64)},
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}


class Readable(Protocol):
    """A file that a pickle is read from."""

    def read(self, count: int, /) -> bytes:
        """At most `count` bytes."""
        ...

    def readline(self) -> bytes:
        """Up to the next line's end."""
        ...


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something that a pickle names, as `collections.OrderedDict`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Opaque:
    """An object that only code could make.

    Attributes:
        symbol: what it was to be.
        state: what its attributes were to be, where the pickle says so.
    """

    symbol: str
    state: Any = None

    def append(self, item: object) -> None:
        """Nothing; pickles fill lists so."""

    def extend(self, items: object) -> None:
        """Nothing; pickles fill lists so."""

    def __setitem__(self, key: object, item: object) -> None:
        """Nothing; pickles fill maps so."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that tensors share.

    Attributes:
        key: its name in the file.
        dtype: of its elements; None for bytes.
        count: of its elements.
    """

    key: str
    dtype: str | None
    count: int


@dataclass(frozen=True, slots=True)
class PickledTensor:
    """A tensor: where its elements are in a storage."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    metadata: Any = field(default=None, hash=False)


def load_pickle(file: Readable, path: str) -> Any:
    """Read one pickle.

    Args:
        file: stands at its beginning, and afterwards behind its end.
        path: for messages.

    Returns:
        Plain values, lists and dicts of them, and the classes above.

    Raises:
        RecordFormatError: it is damaged.
    """
    try:
        return _Reader(file).load()
    except RecordFormatError as error:
        raise RecordFormatError(f"{path}: {error}") from error
    except Exception as error:  # a damaged pickle makes the reader fail in any way
        raise RecordFormatError(
            f"{path}: its pickle is damaged ({type(error).__name__}: {error!s:.100}); save or fetch it again"
        ) from error


# The one in Python: that in C takes memory for whatever number a pickle names.
_Unpickler: Any = pickle._Unpickler


class _Reader(_Unpickler):
    dispatch: ClassVar[dict[int, Any]] = dict(_Unpickler.dispatch)

    def __init__(self, file: Readable) -> None:
        super().__init__(file, encoding="utf-8")

    def find_class(self, module: str, name: str, /) -> Any:
        """A name, never the thing."""
        return Symbol(module, name)

    def persistent_load(self, pid: Any) -> Storage | Symbol:
        """Storages are what torch pickles by reference, and classes of modules in old files."""
        match pid:
            case ("module", Symbol() as kind, *_):
                return kind
            case ("storage", kind, str(key), _, int(count), *_):
                dtype = STORAGE_DTYPES.get(kind.name) if isinstance(kind, Symbol) else None
                if isinstance(kind, Symbol) and dtype is None and kind.name != "UntypedStorage":
                    raise RecordFormatError(f"it has a {kind}, a kind of storage that is not known")
                if len(pid) < 6 or pid[5] is None:
                    return Storage(key, dtype, count)
        raise RecordFormatError(f"it refers to {pid!r:.80}, expected a storage of tensors")

    def get_extension(self, code: int) -> None:
        """Refuse: extensions are numbers for code."""
        raise RecordFormatError(f"it asks for the extension {code} of pickle, which is not read")

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = _called(self.stack[-1], arguments)

    def _make(self) -> None:
        self.stack.pop()
        self.stack[-1] = Opaque(str(self.stack[-1]))

    def _make_with_keywords(self) -> None:
        self.stack.pop()
        self._make()

    def _make_marked(self) -> None:
        items = self.pop_mark()
        self.append(Opaque(str(items[0]) if items else "an object"))

    def _make_named(self) -> None:
        module, name = (self.readline()[:-1].decode() for _ in range(2))
        self.pop_mark()
        self.append(Opaque(f"{module}.{name}"))

    def _build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Opaque):
            self.stack[-1].state = state

    def _refuse(self) -> None:
        raise RecordFormatError("its pickle has an instruction that torch.save does not write")

    dispatch[pickle.REDUCE[0]] = _reduce
    dispatch[pickle.NEWOBJ[0]] = _make
    dispatch[pickle.NEWOBJ_EX[0]] = _make_with_keywords
    dispatch[pickle.OBJ[0]] = _make_marked
    dispatch[pickle.INST[0]] = _make_named
    dispatch[pickle.BUILD[0]] = _build
    dispatch[pickle.BYTEARRAY8[0]] = _refuse
    dispatch[pickle.NEXT_BUFFER[0]] = _refuse
    dispatch[pickle.READONLY_BUFFER[0]] = _refuse


def _called(function: Any, arguments: Any) -> Any:
    """What a call gives, if it is one of those that rebuild tensors and containers; an Opaque otherwise."""
    match str(function), arguments:
        case "collections.OrderedDict", ():
            return {}
        case "torch.Size" | "builtins.set" | "__builtin__.set", (list() | tuple() as items,):
            return list(items)
        case (
            "torch._utils._rebuild_tensor" | "torch._utils._rebuild_tensor_v2",
            (Storage() as storage, int(offset), tuple(shape), tuple(strides), *rest),
        ):
            if storage.dtype is None:
                raise RecordFormatError(f"a tensor of the storage '{storage.key}' has no type")
            return _tensor(storage, storage.dtype, offset, shape, strides, [*rest, None, None, None][2])
        case (
            "torch._utils._rebuild_tensor_v3",
            (
                Storage() as storage,
                int(offset),
                tuple(shape),
                tuple(strides),
                _,
                _,
                Symbol(module="torch") as kind,
                *rest,
            ),
        ) if kind.name in _DTYPES:
            return _tensor(storage, _DTYPES[kind.name], offset, shape, strides, [*rest, None][0])
        case "torch._utils._rebuild_parameter", (PickledTensor() as tensor, *_):
            return tensor
        case "torch._utils._rebuild_parameter_with_state", (PickledTensor() as tensor, *_):
            return tensor
        case "torch._tensor._rebuild_from_type_v2", (inner, Symbol() as kind, tuple(inner_arguments), _) if str(
            kind
        ) in ("torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer", "torch.Tensor"):
            return _called(inner, inner_arguments)
        case _:
            return Opaque(str(function))


def _tensor(storage: Storage, dtype: str, offset: int, shape: Any, strides: Any, metadata: Any) -> PickledTensor:
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(type(it) is int and 0 <= it < 2**63 for it in numbers):
        raise RecordFormatError(f"a tensor has the shape {shape[:16]!r:.80} and the strides {strides[:16]!r:.80}")
    return PickledTensor(storage, dtype, offset, shape, strides, metadata)
