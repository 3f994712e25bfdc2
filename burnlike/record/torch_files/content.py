"""The content of a file of `torch.save`: maps, lists, plain values and tensors. Nothing in it is run."""

import os
from typing import Any

from torch import Tensor

from ...errors import RecordFormatError
from ..bytes.source import FileSource
from ..files.stored_tensors import LazyTensors
from ..formats import Outline
from .torch_file import archive_of, entry_of
from .torch_pickle import Opaque, PickledTensor, kind_of

_MAX_DEPTH = 64


def read_content(path: str | os.PathLike[str]) -> Any:
    """The object that `torch.save` wrote, its tensors in memory on the CPU."""
    source = FileSource(path)
    if source.read_some(0, 1) not in (b"P", b"\x80"):
        raise RecordFormatError(f"{source.path}: expected a file of torch.save, which begins otherwise")
    archive = archive_of(source)
    bytes_left = source.stored_bytes
    # A small pickle can refer to one list a million times: each object is made once.
    tensors: dict[PickledTensor, Tensor] = {}
    converted: dict[int, Any] = {}

    def value(item: Any, name: str, depth: int) -> Any:
        if item is None or isinstance(item, bool | int | float | str | bytes):
            return item
        if depth > _MAX_DEPTH:
            raise RecordFormatError(f"{source.path}: '{name[:80]}' is nested too deeply or refers to itself")
        if isinstance(item, PickledTensor):
            if item not in tensors:
                tensors[item] = tensor(item, name)
            return tensors[item]
        if id(item) not in converted:
            converted[id(item)] = container(item, name, depth + 1)
        return converted[id(item)]

    def container(item: Any, name: str, depth: int) -> Any:
        if isinstance(item, dict):
            keys = [value(it, f"{name} (a key)", 0) if isinstance(it, Opaque) else it for it in item]
            return {key: value(it, f"{name}.{key}", depth) for key, it in zip(keys, item.values(), strict=True)}
        if isinstance(item, list | tuple):
            return type(item)([value(it, f"{name}.{index}", depth) for index, it in enumerate(item)])
        raise RecordFormatError(
            f"{source.path}: '{name[1:81]}' is {kind_of(item)}, which only code could make; nothing of a file is run"
        )

    def tensor(item: PickledTensor, name: str) -> Tensor:
        nonlocal bytes_left
        entry = entry_of(name, item, archive, source)
        bytes_left -= entry.nbytes
        if bytes_left < 0:
            raise RecordFormatError(f"{source.path}: its tensors have more bytes than the file")
        return LazyTensors(source, Outline({name: entry}))[name]

    return value(archive.content, "", 0)
