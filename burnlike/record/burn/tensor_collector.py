"""Collects the tensors of a file while it is read, with their ids; one that comes twice is tied. Imports no torch."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ...errors import RecordFormatError
from ...module.identity.param_id import ParamId
from ..outline import StoredTensor, byte_count

_STEP_BYTES = 1 << 20

Pairs = Sequence[tuple[StoredTensor, StoredTensor]]


class TensorCollector:
    """The tensors read so far; errors end with `reason`, what may be wrong with the file.

    Attributes:
        entries: the tensors by path, in the file's order.
        ids: ParamId of those that are parameters.
        aliases: path at which a tensor comes again -> where it came first.
        copies: tensors that come again with bytes of their own.
    """

    def __init__(self, source_path: str, reason: str = "it is damaged or no record of Burn's") -> None:
        self.entries: dict[str, StoredTensor] = {}
        self.ids: dict[str, ParamId] = {}
        self.aliases: dict[str, str] = {}
        self._names: dict[ParamId, str] = {}
        self.copies: list[StoredTensor] = []
        self._source_path, self._reason = source_path, reason

    def param(self, id_text: Any, tensor: StoredTensor) -> None:
        """Note a parameter; one whose id came before is the same tensor again, which `check_ties` looks at."""
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
        if not same_type(self.entries[first], tensor):
            raise self.wrong(path, f"the ParamId of '{first}' ({param_id}), but another type or shape")
        self.aliases[path] = first
        if not same_place(self.entries[first], tensor):
            self.copies.append(tensor)

    def tensor(self, tensor: StoredTensor) -> None:
        self._check_path(tensor.name)
        self.entries[tensor.name] = tensor

    def check_ties(self) -> None:
        """Check that tensors that came with the same id have the same values; called when all has been read."""
        for first, again in differing([(self.entries[self.aliases[it.name]], it) for it in self.copies]):
            raise self.wrong(again.name, f"the ParamId of '{first.name}' ({self.ids[first.name]}), but other values")

    def _check_path(self, path: str) -> None:
        if path in self.entries or path in self.aliases:
            raise self.wrong(path, "two tensors")

    def check_bytes(self, path: str, count: int, dtype: str, shape: list[int]) -> None:
        if prod(shape) > count or byte_count(dtype, shape) != count:
            raise self.wrong(path, f"{count} bytes for {dtype} {shape[:16]}")

    def wrong(self, path: str, what: str) -> RecordFormatError:
        """The error that the part at `path` is as it can't be."""
        return RecordFormatError(f"{self._source_path}: '{path}' has {what}; {self._reason}")


def same_type(one: StoredTensor, other: StoredTensor) -> bool:
    """Whether two tensors have the same dtype, in the file too, and the same shape."""
    return (one.dtype, one.shape, one.stored_as) == (other.dtype, other.shape, other.stored_as)


def same_place(one: StoredTensor, other: StoredTensor) -> bool:
    return replace(one, name="") == replace(other, name="")


def differing(pairs: Pairs) -> Pairs:
    """Those pairs whose values are not the same.

    Each tensor is read once, in the file's order: one pass over a file that can only be read forward.
    """
    in_order = sorted({it.start: it for pair in pairs for it in pair}.values(), key=lambda it: it.start)
    digests = {it.start: _digest(it) for it in in_order}
    return [
        (one, other) for one, other in pairs if not same_type(one, other) or digests[one.start] != digests[other.start]
    ]


def _digest(tensor: StoredTensor) -> bytes:
    found = hashlib.sha256()
    for begin in range(0, tensor.stored_bytes, _STEP_BYTES):
        piece = bytearray(min(_STEP_BYTES, tensor.stored_bytes - begin))
        tensor.read_into(begin, memoryview(piece))
        found.update(piece)
    return found.digest()
