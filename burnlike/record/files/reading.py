"""Reads a record's file of any format except its tensors' values, and compares these with their checksums.

Imports no torch.
"""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...errors import ArgumentError, RecordFormatError
from ..bytes.budget import Budget
from ..bytes.checksums import checksum_of
from ..bytes.source import FileSource, GzipSource, Source
from ..formats import Format, Outline, StoredTensor, detect, directory_reader
from .sharded import INDEX_SUFFIX, find_record, read_sharded

_READERS = 4
_REMEDY = "the file is damaged, or another program has changed it; fetch or save it again"


def read_outline(
    path: str | os.PathLike[str], layout: Any = None, top_level_key: str | None = None
) -> tuple[Source, Outline]:
    """The source without what compresses it, and all that the file holds but the values; see `open_record`."""
    place = os.fspath(path)
    if not os.path.isfile(place):
        if (reader := directory_reader(place)) is not None:
            return reader(place, top_level_key)
        place = find_record(place)
    if not place.endswith(INDEX_SUFFIX):
        return read_file(place, layout, top_level_key)
    return read_sharded(place, lambda shard, budget: read_file(shard, layout, top_level_key, budget)[1])


def read_file(
    path: str | os.PathLike[str],
    layout: Any = None,
    top_level_key: str | None = None,
    budget: Budget | None = None,
) -> tuple[Source, Outline]:
    """The same as `read_outline`, of a single file; `budget` is that of the set of files which it is one of."""
    source = FileSource(path, budget)
    detected = detect(source)
    if top_level_key is not None and not detected.has_top_level_keys:
        raise ArgumentError(f"{source.path}: top_level_key is for files of torch.save, this is {detected.name}")
    options = () if top_level_key is None else (top_level_key,)
    return read_source(source, detected, layout, *options, ends=budget is None)


def read_source(
    source: Source, file_format: Format, layout: Any = None, *options: Any, ends: bool = True
) -> tuple[Source, Outline]:
    """The source without what compresses it, and all that it holds but the values.

    `options` are for the format's `read`; with `ends`, nothing more is opened with the source's budget.
    """
    collects = gc.isenabled()
    gc.disable()  # all of the many objects stay, and looking at them takes a third of the time
    try:
        inner = GzipSource(source) if file_format.compressed else source
        outline = file_format.read(inner, layout, *options)
    finally:
        if collects:
            gc.enable()
    if ends:
        source.budget.end()
    return inner, outline


def verify_outline(outline: Outline) -> int:
    """Read the values of a file's tensors and compare them, and the header, with their checksums.

    Returns how many tensors were compared; those without a checksum are left out.
    """
    if outline.changed:
        raise RecordFormatError(
            f"{outline.changed}: the header, which has names, ids and plain values, is not the one that was saved (its"
            f" checksum differs): {_REMEDY}"
        )
    entries = outline.entries.values()
    stored = [it for it in entries if isinstance(it, StoredTensor)]
    with_checksum = [it for it in stored if it.crc32 is not None]
    others = [it for it in stored if it.crc32 is None]
    sources = {id(it.source): it.source for it in others}
    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(_verify, with_checksum))
        verified = dict(zip(sources, pool.map(lambda it: it.verify(), sources.values()), strict=True))
    return len(with_checksum) + sum(verified[id(it.source)] for it in others)


def _verify(entry: StoredTensor) -> None:
    checksum = checksum_of(entry.source, entry.start, entry.stored_bytes)
    if checksum != entry.crc32:
        raise RecordFormatError(
            f"{entry.source.path}: the values of '{entry.name[:80]}' are not those that were saved (checksum"
            f" {checksum:08x}, expected {entry.crc32:08x}): {_REMEDY}"
        )
