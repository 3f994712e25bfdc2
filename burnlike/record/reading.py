"""Reading all of a record's file but its tensors' values, whatever its format. Imports no torch."""

import os
from typing import Any

from .formats import detect
from .gzip_source import GzipSource
from .outline import Outline
from .source import FileSource, Source


def read_outline(path: str | os.PathLike[str], layout: Any = None) -> tuple[Source, Outline]:
    """The file without what compresses it, and all that it holds but the values.

    Args:
        path: the file.
        layout: see `burnlike.record.layout`; for bincode, which carries no names.

    Raises:
        RecordIOError: the file can't be read.
        RecordFormatError: it is damaged, or of no format that is known.
    """
    source: Source = FileSource(path)
    found = detect(source, path)
    if found.compressed:
        source = GzipSource(source)
    return source, found.read(source, layout)
