"""What a file of `torch.save` has: maps, lists, plain values and tensors. Nothing in it is run."""

import os
from typing import Any

from torch import Tensor

from ...errors import RecordFormatError
from ..bytes.source import FileSource
from ..files.stored_tensors import LazyTensors
from ..outline import Outline
from .pickled import Opaque, PickledTensor, Symbol, Tagged
from .torch_file import archive_of, entry_of

_MAX_DEPTH = 64


def read_content(path: str | os.PathLike[str]) -> Any:
    """The object that `torch.save` wrote, its tensors in memory on the CPU."""
    source = FileSource(path)
    if source.read_some(0, 1) not in (b"P", b"\x80"):
        raise RecordFormatError(f"{source.path}: expected a file of torch.save, which begins otherwise")
    reader = _Reader(source)
    return reader.value(reader.archive.content, "", 0)


class _Reader:
    def __init__(self, source: FileSource) -> None:
        self.archive = archive_of(source)
        self._source = source
        self._tensors: dict[PickledTensor, Tensor] = {}
        # A small pickle can refer to one list a million times: each is made once.
        self._made: dict[int, Any] = {}
        self._bytes_left = source.stored_bytes

    def value(self, item: Any, name: str, depth: int) -> Any:
        if item is None or isinstance(item, bool | int | float | str | bytes):
            return item
        if depth > _MAX_DEPTH:
            raise RecordFormatError(f"{self._source.path}: '{name[:80]}' is nested too deeply or refers to itself")
        if isinstance(item, PickledTensor):
            if item not in self._tensors:
                self._tensors[item] = self._tensor(item, name)
            return self._tensors[item]
        if id(item) not in self._made:
            self._made[id(item)] = self._container(item, name, depth + 1)
        return self._made[id(item)]

    def _container(self, item: Any, name: str, depth: int) -> Any:
        if isinstance(item, dict):
            keys = [self.value(it, f"{name} (a key)", 0) if isinstance(it, Opaque) else it for it in item]
            return {key: self.value(it, f"{name}.{key}", depth) for key, it in zip(keys, item.values(), strict=True)}
        if isinstance(item, list | tuple):
            return type(item)([self.value(it, f"{name}.{index}", depth) for index, it in enumerate(item)])
        kind = item.symbol if isinstance(item, Opaque | Tagged) else item
        shown = str(kind) if isinstance(kind, Symbol) else type(item).__name__
        raise RecordFormatError(
            f"{self._source.path}: '{name[1:81]}' is {shown[:80]}, which only code could make; nothing of a file is run"
        )

    def _tensor(self, item: PickledTensor, name: str) -> Tensor:
        entry = entry_of(name, item, self.archive, self._source)
        self._bytes_left -= entry.nbytes
        if self._bytes_left < 0:
            raise RecordFormatError(f"{self._source.path}: its tensors have more bytes than the file")
        return LazyTensors(self._source, Outline({name: entry}))[name]
