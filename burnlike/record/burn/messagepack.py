"""NamedMpk: records as MessagePack with field names, as Burn 0.21 writes them. Imports no torch.

https://github.com/msgpack/msgpack/blob/master/spec.md; integers and lengths in their shortest form, as in rmp-serde.
"""

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from ...errors import RecordError
from ..bytes.budget import NUMBER, TensorCost
from ..bytes.source import Source
from ..formats import Outline, Payload, Segment, TensorEntry
from .envelope import EnvelopeFormat, artifact_of, outline_of_artifact, pieces_of
from .record_tree import Blob, TreeReader, has_values


class NamedMpk(EnvelopeFormat):
    """See `burnlike.record.formats.Format`."""

    def segments(self, outline: Outline) -> Iterator[Segment]:
        tree = artifact_of(outline, self.recorder, [])
        for piece in pieces_of(tree, outline, msgspec.msgpack.encode, _hole):
            yield Payload(piece.name) if isinstance(piece, TensorEntry) else piece

    def read(self, source: Source, layout: object = None) -> Outline:
        return outline_of_artifact(_Reader(source).whole(), source, self.name)


def _hole(mark: bytes, entry: TensorEntry) -> bytes:
    count = entry.nbytes
    if count >= 2**32:
        raise RecordError(f"'{entry.name}' has {count} bytes, MessagePack holds 4 GiB; save it as safetensors")
    form, code = (">BB", 0xC4) if count < 2**8 else (">BH", 0xC5) if count < 2**16 else (">BI", 0xC6)
    return struct.pack(form, code, count) + mark


class _Reader(TreeReader):
    """Reads values; bytes are gone over, and their place is kept."""

    tensor = TensorCost(memory=3600, steps=500, file_bytes=8)
    has_values = staticmethod(has_values)

    def value(self, depth: int) -> Any:
        byte = self.cursor.take_byte()
        if 0xA0 <= byte < 0xC0:
            return self.text(byte - 0xA0)
        if 0x80 <= byte < 0x90:
            return self.map_of(byte - 0x80, depth)
        if 0x90 <= byte < 0xA0:
            return self.list_of(byte - 0x90, depth)
        self.budget.take(NUMBER, 10, 1)
        if byte < 0x80 or byte >= 0xE0:
            return byte if byte < 0x80 else byte - 0x100
        if byte in _CONSTANTS:
            return _CONSTANTS[byte]
        if byte in _NUMBERS:
            return self.number(_NUMBERS[byte])
        if byte not in _LENGTHS:
            raise self.wrong(f"0x{byte:02x} begins no value")
        kind, form = _LENGTHS[byte]
        count = self.number(form)
        match kind:
            case "text":
                return self.text(count)
            case "list":
                return self.list_of(count, depth)
            case "map":
                return self.map_of(count, depth)
        start = self.cursor.position
        self.cursor.skip(count)
        self.budget.take(2 * NUMBER, 20)
        return Blob(start, count)


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = dict(enumerate((">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), 0xCA))
_LENGTHS = {
    first + index: (kind, form)
    for kind, first, forms in (
        *(("bytes", 0xC4, (">B", ">H", ">I")), ("text", 0xD9, (">B", ">H", ">I"))),
        *(("list", 0xDC, (">H", ">I")), ("map", 0xDE, (">H", ">I"))),
    )
    for index, form in enumerate(forms)
}
_FILE = "burn_core::record::file::NamedMpk{}FileRecorder"
NAMED_MPK = NamedMpk("NamedMpk", ".mpk", False, _FILE.format(""))
NAMED_MPK_GZ = NamedMpk("NamedMpkGz", ".mpk.gz", True, _FILE.format("Gz"))
NAMED_MPK_BYTES = NamedMpk("NamedMpk", ".mpk", False, "burn_core::record::memory::NamedMpkBytesRecorder")
