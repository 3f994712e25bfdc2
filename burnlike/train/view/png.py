"""Writes images as PNG (RFC 2083), for samples of a run."""

import struct
import zlib
from pathlib import Path

from torch import Tensor

from ..._atomic import replace_file

_GREY, _RGB = 0, 2


def write_png(path: Path, image: Tensor) -> None:
    """Write an image `[channels, height, width]` uint8 of 1 or 3 channels, with the folder that it goes to."""
    channels, height, width = image.shape
    rows = image.permute(1, 2, 0).reshape(height, -1).contiguous().numpy()
    pixels = b"".join(b"\0" + row.tobytes() for row in rows)  # each row without a filter
    header = struct.pack(">IIBBBBB", width, height, 8, _GREY if channels == 1 else _RGB, 0, 0, 0)
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(pixels)), _chunk(b"IEND", b""))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
