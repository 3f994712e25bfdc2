"""Directories of safetensors files that have parts of tensors, one or more for each process. Imports no torch.

torch's HuggingFaceStorageWriter notes in each file where its parts begin. `DistributedRecorder` adds a file without
tensors, which has the rest of a record, the names of all files and the checksums of what they have.
"""

import os
import struct
from typing import Any

from ...errors import ArgumentError, RecordFormatError, RecordIOError
from ..bytes.budget import CONTAINER, NUMBER, Budget, load_json, text_map, texts_of
from ..bytes.source import HEX_DIGITS, CheckedSource, FileSource, Source, checksum_of
from ..files.chunks import Chunk, stored_in_chunks
from ..formats import DEFAULT_EXTENSION, DETAILS, Outline, StoredTensor
from ..metadata import decode
from .format import Header, read_header

FILES = "burnlike.files"
_BEGINS, _OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"  # in the texts of a file, as torch writes them
_NAME_BYTES = 200


def read_parts(path: str, top_level_key: str | None = None) -> tuple[Source, Outline]:
    """The content of a directory; see `burnlike.record.files.reading.read_outline`."""
    if top_level_key is not None:
        raise ArgumentError(
            f"{path}: top_level_key is for files of torch.save and directories of torch.distributed.checkpoint; this"
            " directory has safetensors files"
        )
    budget = Budget(path)
    texts: dict[str, str] = {}
    checksums: dict[str, str] = {}
    if os.path.isfile(os.path.join(path, DETAILS)):
        details = FileSource(os.path.join(path, DETAILS), budget)
        texts = dict(read_header(details).metadata)
        checksums = _checksums(path, details, texts, budget)
    names = sorted(it for it in os.listdir(path) if it.endswith(DEFAULT_EXTENSION) and it != DETAILS)
    sources = [FileSource(os.path.join(path, name), budget) for name in names]
    chunks: dict[str, list[Chunk]] = {}
    dtypes: dict[str, str] = {}
    for file, source in zip(names, sources, strict=True):
        header = read_header(source)
        begins = _begins(source, header, budget)
        numbers = _numbers(source, header, checksums.get(file, ""))
        for (name, entry), number in zip(header.tensors.items(), numbers, strict=True):
            offsets = begins.get(name, (0,) * len(entry.shape))
            if dtypes.setdefault(name, entry.dtype) != entry.dtype or len(offsets) != len(entry.shape):
                raise RecordFormatError(f"{source.path}: '{name[:80]}' is of another form than in the files before it")
            part = CheckedSource(source, entry.start, entry.stored_bytes, number, name)
            chunks.setdefault(name, []).append(Chunk(offsets, entry.shape, part, 0))
    entries: dict[str, StoredTensor] = {}
    for name, parts in chunks.items():
        ends = [[at + size for at, size in zip(it.offsets, it.sizes, strict=True)] for it in parts]
        shape = tuple(map(max, zip(*ends, strict=True))) if len({*map(len, ends)}) == 1 else ()
        entries[name] = stored_in_chunks(name, dtypes[name], shape, parts, path)
    outline = decode(texts, entries, path, budget)
    budget.end()
    first = FileSource(os.path.join(path, DETAILS)) if texts else sources[0]
    first.path = path
    return first, outline


def part_checksums(path: str | os.PathLike[str]) -> str:
    """The checksums of the tensors of a file, in their order, 8 hexadecimal digits each."""
    source = FileSource(os.fspath(path))
    tensors = read_header(source).tensors.values()
    return "".join(f"{checksum_of(source, it.start, it.stored_bytes):0{HEX_DIGITS}x}" for it in tensors)


def _checksums(path: str, details: Source, texts: dict[str, str], budget: Budget) -> dict[str, str]:
    """The checksums of each file, empty where they were not saved; refuses a directory of which files are missing.

    Without one, tensors would look like smaller ones.
    """
    text = texts.pop(FILES, "{}").encode()
    try:
        is_list = text.startswith(b"[")  # as burnlike wrote it without checksums
        checksums = dict.fromkeys(texts_of(text, budget, _NAME_BYTES), "") if is_list else text_map(text, budget)
        missing = sorted(name for name in checksums if not os.path.exists(os.path.join(path, name)))
    except ValueError as error:
        raise RecordFormatError(f"{details.path}: {FILES} is no map of names: it {error}") from error
    if missing:
        raise RecordFormatError(
            f"{details.path}: of its files, {', '.join(missing[:10])} is missing; fetch the directory again"
        )
    return checksums


def _numbers(source: Source, header: Header, digits: str) -> list[int | None]:
    """The checksum of each tensor of a file; None where there is none."""
    if not digits:
        return [None] * len(header.tensors)
    try:
        return [*struct.unpack(f">{len(header.tensors)}I", bytes.fromhex(digits))]
    except (ValueError, struct.error) as error:
        raise RecordFormatError(
            f"{source.path}: {DETAILS} beside it has other checksums than of its {len(header.tensors)} tensors; fetch"
            " the directory again"
        ) from error


def _begins(source: Source, header: Header, budget: Budget) -> dict[str, tuple[int, ...]]:
    """Name of a tensor -> where the part of it begins that the file has."""
    text = header.metadata.get(_BEGINS)
    if text is None:
        return {}
    try:
        budget.take(len(text) + 2 * CONTAINER * text.count("{") + NUMBER * text.count(","), len(text))
        positions: Any = load_json(text.encode(), budget)
        begins = {name: tuple(it[_OFFSETS]) for name, it in positions.items()}
        if all(type(at) is int and 0 <= at < 1 << 60 for it in begins.values() for at in it):
            return begins
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordFormatError(f"{source.path}: {_BEGINS} is not as torch writes it ({error})") from error
    raise RecordFormatError(f"{source.path}: {_BEGINS} has something else than places in tensors")


def check_directory(path: str) -> None:
    """Refuse a path that is no directory of `DistributedRecorder`."""
    if not os.path.exists(path):
        raise RecordIOError(f"{path}: no such directory")
    if not os.path.isfile(os.path.join(path, DETAILS)):
        raise RecordFormatError(
            f"{path}: expected a directory that DistributedRecorder wrote, it has no file {DETAILS}"
        )
