"""Finds tensors in a bincode file without a layout, by their form. Imports no torch."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import RecordFormatError
from ..bytes.budget import CONTAINER
from ..bytes.source import Cursor, Source
from ..outline import Outline, StoredTensor
from .bincode_reader import take_envelope, take_tensor, take_text, version_of
from .state_layouts import full_id
from .tensor_collector import TensorCollector

# An id with its length in front: 13 characters, 10 in Burn 0.14, or the 36 of a UUID in Burn's oldest files.
_ID = re.compile(rb"\x0d[0-9a-v]{13}|\x0a[0-9a-v]{10}|\x24[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ID_BYTES = 37
_GAP_BYTES = 64
_FIRST_WINDOW, _LARGEST_WINDOW = 1 << 9, 1 << 18


def scan(source: Source, name: str = "Bin") -> Outline:
    """Find the tensors of an unpacked file in bincode without its layout, which alone could tell names and arrangement.

    Parameters are found by their ids, and the tensors in an optimizer's states behind the ids that they belong to.
    Tensors without elements are overlooked. The names are made up: `?0`, `?1`, ... in the order of the file, in states
    `<id>.?0`, ... The outline has no values and no layout.
    """
    cursor = Cursor(source)
    metadata = take_envelope(cursor)
    version = metadata["version"]
    found = _Scanner(source, version_of(version, source.path)).run(cursor.position)
    return Outline(found.entries, found.ids, found.aliases, metadata=metadata, format=name, version=version)


@dataclass(frozen=True, slots=True)
class _Scanner:
    source: Source
    version: tuple[int, int]

    def run(self, position: int) -> TensorCollector:
        found = TensorCollector(self.source.path)
        while (begin := self._next_id(position)) is not None:
            count = len(found.entries) + len(found.aliases)
            cursor = Cursor(self.source, begin, _FIRST_WINDOW)
            label = full_id(take_text(cursor, _ID_BYTES))
            behind = cursor.position
            tensor = self._tensor(cursor, f"?{count}")
            position = behind
            if tensor is None:
                for tensor, end in self._state(label, behind):
                    found.tensor(tensor)
                    position = end
                continue
            with contextlib.suppress(RecordFormatError):  # of an id that comes twice: bytes that look like a parameter
                found.param(label, tensor)
                position = cursor.position
        return found

    def _state(self, label: str, position: int) -> Iterator[tuple[StoredTensor, int]]:
        """The tensors of the optimizer's state that may begin here, each with the place behind it."""
        cursor = Cursor(self.source, position, _FIRST_WINDOW)
        head = self.source.read_some(position, 2)
        if len(head) < 2 or head[0] != 0 or head[1] > 8:
            return
        cursor.position = begin = position + 2
        count = 0
        while cursor.position - begin < _GAP_BYTES and not cursor.at_end():
            at = cursor.position
            if _ID.match(self.source.read_some(at, _ID_BYTES)):
                return
            tensor = self._tensor(cursor, f"{label}.?{count}")
            if tensor is not None and len(tensor.shape) <= head[1]:
                yield tensor, cursor.position
                begin, count = cursor.position, count + 1
            else:
                cursor.position = at + 1

    def _tensor(self, cursor: Cursor, name: str) -> StoredTensor | None:
        """The tensor at the cursor, if one that has elements can be there."""
        try:
            tensor = take_tensor(cursor, name, self.version, TensorCollector(self.source.path))
        except RecordFormatError:
            return None
        if not tensor.stored_bytes:
            return None
        self.source.budget.take(2 * CONTAINER, 50, 40)
        return tensor

    def _next_id(self, position: int) -> int | None:
        """The position of the next id. The window is small at first, as ids are mostly near each other."""
        window = _FIRST_WINDOW
        while True:
            piece = self.source.read_some(position, window)
            match = _ID.search(piece)
            if match is not None:
                return position + match.start()
            if len(piece) < window:
                return None
            position += window - _ID_BYTES
            window = min(window * 4, _LARGEST_WINDOW)
