"""Compares the values of a record's tensors with the checksums of its file."""

import os

from .files.checksums import verify_outline
from .files.lazy_tensors import LazyTensors
from .files.reading import read_outline
from .record import Record


def verify(source: Record | str | os.PathLike[str]) -> int:
    """Read the values of all tensors, and compare them with the checksums that were saved with them.

    Safetensors files that burnlike writes have one for each tensor, files of `torch.save` one for each storage, gzipped
    files one for all. Others have none.

    Args:
        source: a record that was opened, or a file (or the index or directory of a set of files).

    Returns:
        How many tensors were compared; 0 for a record in memory.

    Raises:
        RecordFormatError: a value is not the one that was saved; names the tensor, or the header.
        RecordIOError: reading fails.
    """
    if not isinstance(source, Record):
        return verify_outline(read_outline(source)[1])
    tensors = source.tensors
    return verify_outline(tensors.outline) if isinstance(tensors, LazyTensors) else 0
