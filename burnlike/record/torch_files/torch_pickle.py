"""Reads the pickles of `torch.save` without running any code in them. Imports no torch.

Nothing that a pickle names is imported or called: names become `Symbol`s, calls of the few functions that rebuild
tensors become `PickledTensor`s, and every other object becomes an `Opaque`, which remembers what it was to be.
`torch.load(weights_only=True)` runs nothing either, but hostile files make it hang, crash or take any amount of memory,
and it needs torch, which `burnlike inspect` does not load.
"""

import pickle
from collections.abc import Mapping
from typing import Any, ClassVar

from ...errors import RecordFormatError
from ..bytes.budget import Budget, TensorCost
from ..bytes.source import Source
from .pickled import MAX_INT_BITS, STORAGE_DTYPES, Opaque, PickledMap, PickledTensor, Storage, Symbol, called, symbol_of


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

    def _list(self) -> None:
        self.append(self.pop_mark())

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = made = called(self.stack[-1], arguments)
        if isinstance(made, PickledTensor) and 0 not in made.shape:
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
    dispatch[pickle.EMPTY_SET[0]] = _Unpickler.load_empty_list
    dispatch[pickle.ADDITEMS[0]] = _Unpickler.load_appends
    dispatch[pickle.FROZENSET[0]] = _list
    dispatch[pickle.REDUCE[0]] = _reduce
    dispatch[pickle.NEWOBJ[0]] = _make
    dispatch[pickle.BUILD[0]] = _build


def _key(key: Any) -> Any:
    """A key of a map; an Opaque in place of what is no text and no integer."""
    if isinstance(key, str | Opaque) or (type(key) is int and key.bit_length() <= MAX_INT_BITS):
        return key
    return Opaque(Symbol("builtins", type(key).__name__))
