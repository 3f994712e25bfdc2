"""The safetensors file format: headers read with suspicion and built from shapes alone. Imports no torch.

A file is 8 bytes (the header's length, little-endian), the header (JSON, padded with spaces), and the tensors' bytes
without a gap, little-endian and in row-major order: https://github.com/huggingface/safetensors#format.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import RecordError
from . import metadata
from .files.source import Source
from .outline import DTYPE_BITS, Entry, Outline, Payload, Segment
from .safetensors_header import LENGTH_BYTES, MAX_HEADER_BYTES, METADATA, read_header


def build_header(entries: Iterable[Entry], texts: Mapping[str, str]) -> tuple[bytes, list[Entry]]:
    """Make the first bytes of a file from names, dtypes and shapes.

    Args:
        entries: the tensors. The bytes are laid out in this order, but wider elements first, so that every tensor is
            aligned to its element.
        texts: for `__metadata__`.

    Returns:
        The length and header bytes, a multiple of 8 long, and the entries in file order.

    Raises:
        RecordError: a name can't be stored, or the header is longer than readers accept.
    """
    ordered = sorted(entries, key=lambda entry: -DTYPE_BITS[entry.dtype])
    header: dict[str, Any] = {METADATA: dict(texts)} if texts else {}
    offset = 0
    for entry in ordered:
        if entry.name in header or entry.name == METADATA:
            raise RecordError(f"tensor name {entry.name!r} is reserved or comes twice; rename it")
        stop = offset + entry.nbytes
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


class SafetensorsFormat:
    """See `burnlike.record.formats.Format`."""

    name, extension, compressed = "safetensors", ".safetensors", False

    def segments(self, outline: Outline) -> list[Segment]:
        """The header, then all tensors."""
        head, ordered = build_header(outline.entries.values(), metadata.encode(outline))
        return [head, *(Payload(entry.name) for entry in ordered)]

    def read(self, source: Source, layout: object = None) -> Outline:
        """The header; the file has names, so that no layout is needed."""
        header = read_header(source)
        return metadata.decode(header.metadata, header.tensors, source.path, source.budget)


SAFETENSORS = SafetensorsFormat()
