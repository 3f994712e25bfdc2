"""The safetensors file format: headers are checked when read and built from shapes alone. Imports no torch.

A file is 8 bytes (the header's length, little-endian), the header (JSON, padded with spaces), and the tensors' bytes
without a gap, little-endian and in row-major order: https://github.com/huggingface/safetensors#format.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from ...errors import RecordError, RecordFormatError
from .. import metadata
from ..bytes.budget import MAX_HEADER_BYTES
from ..bytes.checksums import HEX_DIGITS
from ..bytes.source import Source
from ..formats import Format
from ..outline import DTYPE_BITS, ChecksumSlot, Outline, Payload, Segment, StoredTensor, TensorEntry, byte_count
from .header import LENGTH_BYTES, METADATA, checksums_start, read_header


def build_header(entries: Iterable[TensorEntry], texts: Mapping[str, str]) -> tuple[bytes, list[TensorEntry]]:
    """Make the first bytes of a file from names, dtypes and shapes; `texts` are for `__metadata__`.

    The tensors are laid out in their order, but wider elements first, so that every tensor is aligned to its element.
    Returns the length and header, a multiple of 8 bytes long, and the entries in file order.
    """
    ordered = sorted(entries, key=lambda entry: -DTYPE_BITS[entry.dtype])
    header: dict[str, Any] = {METADATA: dict(texts)} if texts else {}
    offset = 0
    for entry in ordered:
        if entry.name in header or entry.name == METADATA:
            raise RecordError(f"tensor name {entry.name!r} is reserved or comes twice; rename it")
        stop = offset + byte_count(entry.dtype, entry.shape)
        header[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, stop]}
        offset = stop
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"a tensor's name or a text is not valid Unicode ({error}); rename it") from error
    text += b" " * (-len(text) % LENGTH_BYTES)
    if len(text) > MAX_HEADER_BYTES:
        raise RecordError(
            f"the names and values of the record take {len(text)} bytes, readers accept {MAX_HEADER_BYTES}; "
            "store long values as tensors"
        )
    return len(text).to_bytes(LENGTH_BYTES, "little") + text, ordered


class SafetensorsFormat(Format):
    """See `burnlike.record.formats.Format`; with `all_names` a tied tensor is written under each of its names."""

    name, extension, compressed = "safetensors", ".safetensors", False

    def __init__(self, *, all_names: bool = False) -> None:
        self._all_names = all_names

    def segments(self, outline: Outline) -> list[Segment]:
        again = outline.aliases if self._all_names else {}
        entries = [*outline.entries.values()]
        for alias, name in again.items():
            entries.append(replace(outline.entries[name], name=alias))
        zeros = "0" * (HEX_DIGITS * (1 + len(entries)))  # those of the tensors are known when they are written
        texts = metadata.encode(outline, zeros)
        head, ordered = build_header(entries, texts)
        at = checksums_start(head)
        names = [*map(attrgetter("name"), ordered)]
        payloads = [*map(Payload, map(again.get, names, names))]
        if at < 0:
            return [head, *payloads]
        own = b"%08x" % zlib.crc32(head[LENGTH_BYTES:])
        slot = ChecksumSlot(HEX_DIGITS * len(entries))
        return [head[:at] + own, slot, head[at + len(zeros) :], *payloads]

    def read(self, source: Source, layout: object = None) -> Outline:
        header = read_header(source)
        entries, again = header.tensors, dict[str, str]()
        if metadata.ALIASES in header.metadata:
            declared = metadata.aliases_of(header.metadata, source.path, source.budget)
            again = {alias: name for alias, name in declared.items() if alias in entries}
            entries = {name: it for name, it in entries.items() if name not in again} if again else entries
        outline = metadata.decode(header.metadata, entries, source.path, source.budget)
        checksums = header.metadata.get(metadata.CHECKSUMS)
        if checksums is None:
            if again:
                _check_again(again, header.tensors, source.path)
            return outline
        try:  # that of the header, then those of the tensors in the order of their bytes
            own, *numbers = struct.unpack(f">{1 + len(header.tensors)}I", bytes.fromhex(checksums))
        except (ValueError, struct.error) as error:
            raise RecordFormatError(
                f"{source.path}: {metadata.CHECKSUMS} is not {HEX_DIGITS} hexadecimal digits for the header and each of"
                f" {len(header.tensors)} tensors; another program has changed the file: save it again without this text"
            ) from error
        for entry, number in zip(header.tensors.values(), numbers, strict=True):
            entry.crc32 = number
        if again:
            _check_again(again, header.tensors, source.path)
        return outline if own == header.crc32 else replace(outline, changed=source.path)


def _check_again(again: Mapping[str, str], tensors: Mapping[str, StoredTensor], path: str) -> None:
    """Refuse tensors that are there again under names of ties, but for those of the same type and checksum."""
    for alias, name in again.items():
        one, other = tensors.get(name), tensors[alias]
        same = one and (one.dtype, one.shape, one.crc32) == (other.dtype, other.shape, other.crc32)
        if not same or other.crc32 is None:
            raise RecordFormatError(
                f"{path}: its metadata ties {alias!r:.80} to {name!r:.80}, which the tensors contradict"
            )


SAFETENSORS = SafetensorsFormat()
SAFETENSORS_ALL_NAMES = SafetensorsFormat(all_names=True)
