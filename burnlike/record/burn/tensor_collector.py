"""The tensors of a file of Burn's: names and numbers of their dtypes, ids, and ties. Imports no torch."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ..._dtypes import DTYPES
from ...errors import DTypeError, RecordFormatError
from ...module.identity.param_id import ParamId
from ..formats import Outline, StoredTensor, byte_count
from ..metadata import IDS, ids_of_clones

_STEP_BYTES = 1 << 20

Pairs = Sequence[tuple[StoredTensor, StoredTensor]]


class TensorCollector:
    """The tensors read so far; errors end with `reason`, what may be wrong with the file.

    Attributes:
        entries: the tensors by path, in the file's order.
        ids: ParamId of those that are parameters.
        aliases: path at which a tensor comes again -> where it came first.
        copies: tensors that come again with bytes of their own.
        clones: path -> the id of a tensor of which another one, with other values, came first.
    """

    def __init__(self, source_path: str, reason: str = "it is damaged or no record of Burn's") -> None:
        self.entries: dict[str, StoredTensor] = {}
        self.ids: dict[str, ParamId] = {}
        self.aliases: dict[str, str] = {}
        self._names: dict[ParamId, str] = {}
        self._paths: dict[str, None] = {}
        self.copies: list[StoredTensor] = []
        self.clones: dict[str, ParamId] = {}
        self._source_path, self._reason = source_path, reason

    def param(self, id_text: Any, tensor: StoredTensor) -> None:
        """Note a parameter; one whose id came before is the same tensor again, or a clone, as `find_clones` tells."""
        path = tensor.name
        self._check_path(path)
        try:
            param_id = ParamId(id_text) if isinstance(id_text, int) else ParamId.parse(id_text)
        except (ValueError, TypeError, AttributeError) as error:
            raise self.wrong(path, f"the id {id_text!r:.60} ({error})") from error
        first = self._names.setdefault(param_id, path)
        if first == path:
            self.entries[path] = tensor
            self.ids[path] = param_id
            return
        self.aliases[path] = first
        if not same_place(self.entries[first], tensor):
            self.copies.append(tensor)

    def tensor(self, tensor: StoredTensor) -> None:
        self._check_path(tensor.name)
        self.entries[tensor.name] = tensor

    def find_clones(self) -> None:
        """Make tensors of their own of those that came with the id of one with other values, when all has been read.

        Clones of Burn's modules keep the ids: a target network, an average of weights.
        """
        clones = {it.name: it for _, it in differing([(self.entries[self.aliases[it.name]], it) for it in self.copies])}
        if not clones:
            return
        self.clones = {path: self.ids[self.aliases.pop(path)] for path in clones}
        self.copies = [copy for copy in self.copies if copy.name not in clones]
        every = {**self.entries, **clones}
        self.entries = {path: every[path] for path in self._paths if path in every}

    def values(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """The plain values of the record, with the ids of clones."""
        return {**plain, IDS: {path: str(clone) for path, clone in self.clones.items()}} if self.clones else dict(plain)

    def _check_path(self, path: str) -> None:
        if path in self._paths:
            raise self.wrong(path, "two tensors")
        self._paths[path] = None

    def check_bytes(self, path: str, count: int, dtype: str, shape: list[int]) -> None:
        if prod(shape) > count or byte_count(dtype, shape) != count:
            raise self.wrong(path, f"{count} bytes for {dtype} {shape[:16]}")

    def wrong(self, path: str, what: str) -> RecordFormatError:
        """The error that the part at `path` is as it can't be."""
        return RecordFormatError(f"{self._source_path}: '{path}' has {what}; {self._reason}")


def same_type(one: StoredTensor, other: StoredTensor) -> bool:
    """True if two tensors have the same dtype, in the file too, and the same shape."""
    return (one.dtype, one.shape, one.stored_as) == (other.dtype, other.shape, other.stored_as)


def same_place(one: StoredTensor, other: StoredTensor) -> bool:
    return replace(one, name="") == replace(other, name="")


def differing(pairs: Pairs) -> Pairs:
    """The pairs whose values are not the same.

    Each tensor is read once, in the file's order: one pass over a file that can only be read forward.
    """
    in_order = sorted({it.start: it for pair in pairs for it in pair}.values(), key=lambda it: it.start)
    digests = {it.start: _digest(it) for it in in_order}
    return [
        (one, other) for one, other in pairs if not same_type(one, other) or digests[one.start] != digests[other.start]
    ]


def _digest(tensor: StoredTensor) -> bytes:
    digest = hashlib.sha256()
    for begin in range(0, tensor.stored_bytes, _STEP_BYTES):
        piece = bytearray(min(_STEP_BYTES, tensor.stored_bytes - begin))
        tensor.read_into(begin, memoryview(piece))
        digest.update(piece)
    return digest.digest()


_PLAIN = tuple(dtype.record for dtype in DTYPES if dtype.in_burn and dtype.kind != "bool")
_BOOL_STORES = {"Native": "BOOL", "U8": "U8", "U32": "U32"}


def burn_dtype(dtype: str, name: str) -> Any:
    """Burn's name: a text, or `{"Bool": "Native"}`."""
    if dtype == "BOOL":
        return {"Bool": "Native"}
    if dtype not in _PLAIN:
        raise DTypeError(
            f"'{name}' is {dtype}, which Burn's formats can't hold; save it as safetensors or choose another Precision"
        )
    return dtype


def read_dtype(dtype: Any, place: str) -> tuple[str, str]:
    """The dtype that Burn's name means, and that of the bytes, `""` for the same."""
    match dtype:
        case "Flex32":
            return "F32", ""
        case "Bool":  # before 0.21
            return "BOOL", ""
        case str() if dtype in _PLAIN:
            return dtype, ""
        case {"Bool": str() as store} if len(dtype) == 1 and store in _BOOL_STORES:
            stored = _BOOL_STORES[store]
            return "BOOL", "" if stored == "BOOL" else stored
        case {"QFloat": _}:
            raise RecordFormatError(f"{place} is quantized (QFloat), which can't be read; save it dequantized")
    dtypes = ", ".join((*_PLAIN, "Flex32", "Bool"))
    raise RecordFormatError(f"{place} has the unknown dtype {dtype!r:.60}; known: {dtypes}")


_NUMBERED = (*_PLAIN[:2], "Flex32", *_PLAIN[2:], "Bool", "QFloat")
_WITHOUT_FLEX32 = tuple(name for name in _NUMBERED if name != "Flex32")
_WITHOUT_U16 = tuple(name for name in _WITHOUT_FLEX32 if name != "U16")


def numbered_dtypes(version: tuple[int, int]) -> tuple[str, ...]:
    """Burn's names in the order of their numbers in bincode, in the given version of Burn (from 0.14 on)."""
    if version < (0, 16):
        return _WITHOUT_U16
    return _WITHOUT_FLEX32 if version < (0, 17) else _NUMBERED


def bool_has_store(version: tuple[int, int]) -> bool:
    """True if the number of Bool is followed by that of its store, in the given version of Burn."""
    return version >= (0, 21)


BOOL_STORES = tuple(_BOOL_STORES)
"""How Burn keeps bools, in the order of their numbers in bincode."""


def dtype_bytes(dtype: str, name: str, version: tuple[int, int]) -> bytes:
    """The number of a dtype in bincode of a version of Burn."""
    kind = "Bool" if dtype == "BOOL" else burn_dtype(dtype, name)
    numbered = numbered_dtypes(version)
    if kind not in numbered:
        raise DTypeError(f"'{name}' is {dtype}, which bincode of Burn {version[0]}.{version[1]} has not")
    store = [BOOL_STORES.index("Native")] if kind == "Bool" and bool_has_store(version) else []
    return bytes([numbered.index(kind), *store])


def with_ids_of_clones(outline: Outline) -> Outline:
    """The outline with the ids of clones among its ids, as Burn's formats have them."""
    if not (clones := ids_of_clones(outline.values)):
        return outline
    ids = {**outline.ids, **{name: clone for name, clone in clones.items() if name in outline.entries}}
    return replace(outline, ids=ids, values={key: value for key, value in outline.values.items() if key != IDS})
