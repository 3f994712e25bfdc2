"""Burnpack files made by hand, and records compared."""

import struct
from typing import Any

import torch

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


def ordered(value: Any) -> str:
    """The same text for equal values, NaN and the sign of zero told apart, in whatever order maps are."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {ordered(value[key])}" for key in sorted(value)) + "}"
    return "[" + ", ".join(map(ordered, value)) + "]" if isinstance(value, list) else repr(value)


def same(one: Record, other: Record) -> None:
    """Assert that two records hold the same."""
    assert set(one.tensors) == set(other.tensors)
    for name in one.tensors:
        assert one.tensors[name].dtype == other.tensors[name].dtype
        assert torch.equal(one.tensors[name], other.tensors[name])
    assert ordered(one.values) == ordered(other.values)
    assert one.ids == other.ids
    assert one.aliases == other.aliases
    assert set(one.states) == set(other.states)
