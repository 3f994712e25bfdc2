"""Reading all of a record's file but its tensors' values, whatever its format. Imports no torch."""

import os
from typing import Any

from ...errors import ArgumentError
from ..formats import detect
from ..outline import Outline
from ..saving.shards import INDEX_SUFFIX
from ..torch_files.torch_file import TorchFormat
from .gzip_source import GzipSource
from .sharded import find_record, read_sharded
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
    return read_sharded(found, lambda shard: read_file(shard, layout, top_level_key)[1])


def read_file(
    path: str | os.PathLike[str], layout: Any = None, top_level_key: str | None = None
) -> tuple[Source, Outline]:
    """As `read_outline`, of a single file."""
    source: Source = FileSource(path)
    found = detect(source, path)
    if found.compressed:
        source = GzipSource(source)
    if top_level_key is None:
        return source, found.read(source, layout)
    if not isinstance(found, TorchFormat):
        raise ArgumentError(f"{source.path}: top_level_key is for files of torch.save, this is {found.name}")
    return source, found.read(source, layout, top_level_key)
