"""Burnpack files made by hand."""

import struct
from typing import Any

from burnlike.record import BurnpackRecorder, Record
from burnlike.record.burn.cbor import encode


def descriptor(start: int, stop: int, **changes: Any) -> dict[str, Any]:
    """That of a vector of float32."""
    return {"dtype": "F32", "shape": [(stop - start) // 4], "data_offsets": [start, stop], **changes}


def made(metadata: Any, data: bytes = b"", version: int = 1, aligned: bool = True) -> bytes:
    """A file of any metadata."""
    text = metadata if isinstance(metadata, bytes) else encode(metadata)
    head = b"NRUB" + struct.pack("<HI", version, len(text)) + text
    return head + bytes(-len(head) % 256 if aligned else 0) + data


def read(data: bytes) -> Record:
    """The record of these bytes, its tensors read, too."""
    record = BurnpackRecorder().from_bytes(data)
    for name in record.tensors:
        record.tensors[name]
    return record
