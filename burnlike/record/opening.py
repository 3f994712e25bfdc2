"""Opens a record's file, whatever its format is."""

import os
from typing import Any

from ..errors import ArgumentError
from .files.reading import read_outline
from .files.sharded import is_distributed_record
from .record import Record
from .recorder import record_of


def open_record(path: str | os.PathLike[str], layout: Any = None, top_level_key: str | None = None) -> Record:
    """Open a record's file; its format is told by its first bytes, its tensors are read when they are asked for.

    Besides the formats that burnlike writes, it reads files of `torch.save` (`.pt`, `.pth`, `.bin`), of which nothing
    is run: maps of tensors and plain values, nested ones by dotted names, and the weights of whole modules.

    Args:
        path: the file; or the index of a sharded set (`model.safetensors.index.json`), or the directory that it or a
            `model.safetensors` is in; or a directory that `DistributedRecorder` wrote.
        layout: see `burnlike.record.layout`; for bincode, which carries no names.
        top_level_key: reads only what is under this key of the outermost map, as `model` or `state_dict`, and names it
            without the key; for files of `torch.save`.

    Raises:
        RecordIOError: a file can't be read.
        RecordFormatError: it is damaged, of no format that is known, or has objects that only code could make; or a
            sharded set is not whole.
        ArgumentError: the file has no such key, or is no file of `torch.save`.
    """
    if is_distributed_record(path):
        if top_level_key is not None:
            raise ArgumentError(f"{os.fspath(path)}: top_level_key is for files of torch.save, this is a directory")
        from .distributed.recorder import DistributedRecorder

        return DistributedRecorder().load(path)
    source, outline = read_outline(path, layout, top_level_key)
    return record_of(source, outline)
