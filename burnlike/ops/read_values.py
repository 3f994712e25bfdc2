"""Values of a file read straight into a tensor of another float type, in one call without Python between the pieces."""

import os

import torch
from torch import Tensor

from ._arguments import FLOATS
from ._library import WITHOUT_NATIVE, op
from .convert import copy_rounded_

_read = op("read_values_")
_KINDS = {dtype: number for number, dtype in enumerate(FLOATS)}
"""ElementKind of csrc/include/burnlike/tensors.h."""


def can_read_values(target: Tensor, source: torch.dtype) -> bool:
    """True if `read_values_` reads values of type `source` into `target`."""
    return source in _KINDS and target.dtype in _KINDS and target.device.type == "cpu" and target.is_contiguous()


def read_values_(target: Tensor, descriptor: int, offset: int, source: torch.dtype) -> int:
    """Fill `target` with the values that lie at `offset` of an open file, converted as `convert_` does.

    Args:
        target: see `can_read_values`.
        descriptor: the file, open for reading.
        offset: of the first byte.
        source: the type of the values in the file, little-endian.

    Returns:
        How many bytes were read: fewer than the target takes where the file ends before.

    Raises:
        OSError: reading failed.
    """
    if "cpu" in WITHOUT_NATIVE:
        return read_values_reference(target, descriptor, offset, source)
    with torch.no_grad():
        count = _read(target, descriptor, offset, _KINDS[source])
    if count < 0:
        raise OSError(-count, os.strerror(-count))
    return count


@torch.no_grad()
def read_values_reference(target: Tensor, descriptor: int, offset: int, source: torch.dtype) -> int:
    """The same as `read_values_` in plain torch."""
    raw = bytearray(os.pread(descriptor, target.numel() * source.itemsize, offset))
    values = torch.frombuffer(raw, dtype=source, count=len(raw) // source.itemsize) if raw else torch.empty(0)
    copy_rounded_(target.view(-1)[: values.numel()], values)
    return len(raw)
