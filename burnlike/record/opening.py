"""Opening a record's file, whatever its format."""

import os
from typing import Any

from .formats import detect
from .gzip_source import GzipSource
from .outline import Outline
from .record import Record
from .recorder import record_of
from .source import FileSource, Source


def open_record(path: str | os.PathLike[str], layout: Any = None) -> Record:
    """Open a record's file; its format is told by its first bytes, its tensors are read when they are asked for.

    Args:
        path: the file.
        layout: see `burnlike.record.layout`; for bincode, which carries no names.

    Raises:
        RecordIOError: the file can't be read.
        RecordFormatError: it is damaged, or of no format that is known.
    """
    source, outline = read_outline(path, layout)
    return record_of(source, outline)


def read_outline(path: str | os.PathLike[str], layout: Any = None) -> tuple[Source, Outline]:
    """The file without what compresses it, and all that it holds but the values.

    Raises:
        RecordIOError, RecordFormatError: see `open_record`.
    """
    source: Source = FileSource(path)
    found = detect(source)
    if found.compressed:
        source = GzipSource(source)
    return source, found.read(source, layout)
