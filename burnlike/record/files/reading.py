"""Reads a record's file except its tensors' values, whatever its format is. Imports no torch."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import ArgumentError
from ..formats import Format, detect
from ..outline import Outline
from ..torch_files.torch_file import TorchFormat
from .budget import Budget
from .gzip_source import GzipSource
from .sharded import INDEX_SUFFIX, find_record, read_sharded
from .source import FileSource, Source


def read_outline(
    path: str | os.PathLike[str], layout: Any = None, top_level_key: str | None = None
) -> tuple[Source, Outline]:
    """The file without what compresses it, and all that it holds but the values.

    Args:
        path: the file; or the index of a sharded set, or the directory that it is in.
        layout: see `burnlike.record.layout`; for bincode, which carries no names.
        top_level_key: reads only what is under this key of the outermost map; for files of `torch.save`.

    Raises:
        RecordIOError: a file can't be read.
        RecordFormatError: it is damaged, or of no format that is known.
        ArgumentError: the file has no such key, or is no file of `torch.save`.
    """
    found = find_record(path)
    if not found.endswith(INDEX_SUFFIX):
        return read_file(found, layout, top_level_key)
    return read_sharded(found, lambda shard, budget: read_file(shard, layout, top_level_key, budget)[1])


def read_file(
    path: str | os.PathLike[str],
    layout: Any = None,
    top_level_key: str | None = None,
    budget: Budget | None = None,
) -> tuple[Source, Outline]:
    """As `read_outline`, of a single file; `budget` is that of the set of files which it is one of."""
    source = FileSource(path, budget)
    found = detect(source)
    if top_level_key is not None and not isinstance(found, TorchFormat):
        raise ArgumentError(f"{source.path}: top_level_key is for files of torch.save, this is {found.name}")
    options = () if top_level_key is None else (top_level_key,)
    return read_source(source, found, layout, *options, ends=budget is None)


def read_source(
    source: Source, file_format: Format, layout: Any = None, *options: Any, ends: bool = True
) -> tuple[Source, Outline]:
    """The source without what compresses it, and all that it holds but the values.

    `options` are for the format's `read`; with `ends`, nothing more is opened with the source's budget.

    Raises:
        RecordIOError, RecordFormatError: see `read_outline`.
    """
    with _without_collecting():
        inner = GzipSource(source) if file_format.compressed else source
        outline = file_format.read(inner, layout, *options)
    if ends:
        source.budget.end()
    return inner, outline


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Let no garbage be searched for meanwhile: all of the many objects made stay, and looking at them takes a third
    of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
