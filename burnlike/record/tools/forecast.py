"""Computes how many bytes saving and loading take, from names, types and shapes alone."""

from collections.abc import Iterable
from typing import NamedTuple

from ..bytes.values import BLOCK_BYTES, MAX_WORKERS
from ..formats import ChecksumSlot, Format, Outline
from ..saving.background import RANGE_BYTES
from ..saving.writing import CHUNK_BYTES, TEXT_BYTES

_DEFLATE_BLOCK = 16_383  # bytes that zlib puts at least into a block that it can't compress; it takes 5 more
_GZIP_BYTES = 18  # what begins and ends a gzip stream
_CUDA_BLOCK = 512  # torch's CUDA allocator rounds each tensor up to a multiple of it


class FileSize(NamedTuple):
    """Length of a file, or the most that it can be."""

    bytes: int
    exact: bool  # text and compressed data depend on the values
    longest_number: int = 0  # characters that a byte of a tensor takes at most, 0 where it is not written as text


def file_size(file_format: Format, outline: Outline) -> FileSize:
    total = longest = 0
    for segment in file_format.segments(outline):
        if isinstance(segment, bytes | ChecksumSlot):
            total += len(segment) if isinstance(segment, bytes) else segment.nbytes
        elif segment.json_indent is None:
            total += outline.entries[segment.name].nbytes
        else:
            indent, count = segment.json_indent, outline.entries[segment.name].nbytes
            number = len("255,") + (0 if indent < 0 else 1 + indent + 2)  # on one line, or each on its own
            longest = max(longest, number)
            total += len("[]") + count * number - len(",") + (0 if indent < 0 else 1 + indent) if count else len("[]")
    if file_format.compressed:
        total += 5 * (total // _DEFLATE_BLOCK + 1) + _GZIP_BYTES
    return FileSize(total, not (longest or file_format.compressed), longest)


def saving_memory(size: FileSize) -> int:
    """Host memory that a save takes beside the record: the buffers in which blocks are converted."""
    if not size.exact:
        # Of text there are, for each byte, a reference to its number, and twice the characters.
        return 2 * CHUNK_BYTES + TEXT_BYTES * (8 + 2 * size.longest_number)
    workers = min(MAX_WORKERS, -(-size.bytes // BLOCK_BYTES))
    return BLOCK_BYTES if workers < 2 else (workers + 1) * BLOCK_BYTES


def device_saving_memory(size: FileSize) -> int:
    """Memory that a save of tensors on a GPU takes there, and as much (pinned) of the host's."""
    if not size.exact:
        return CHUNK_BYTES
    ranges = -(-size.bytes // RANGE_BYTES)
    return min(ranges, 2) * min(size.bytes, RANGE_BYTES)


def loading_memory(tensor_bytes: int) -> int:
    """Host memory that a load takes beside the tensors that are filled: the buffers that blocks are read into."""
    return min(MAX_WORKERS, -(-tensor_bytes // BLOCK_BYTES)) * BLOCK_BYTES


def cuda_memory(sizes: Iterable[int]) -> int:
    """Device memory that tensors of these sizes take."""
    return sum(-(-size // _CUDA_BLOCK) * _CUDA_BLOCK for size in sizes)
