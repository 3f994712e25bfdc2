"""Opening a record's file, whatever its format."""

import os
from typing import Any

from .reading import read_outline
from .record import Record
from .recorder import record_of


def open_record(path: str | os.PathLike[str], layout: Any = None, top_level_key: str | None = None) -> Record:
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
