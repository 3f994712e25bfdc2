"""Tensors in files: type and shape are known, values are read when they are needed, whole or a part of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor

from ...errors import RecordFormatError
from ...module.torch_objects.deferred import Part, deferred_tensor
from ..bytes.source import Source
from ..bytes.values import BLOCK_BYTES, MAX_WORKERS, bytes_at, copy_converted, run_steps
from ..formats import Outline, StoredTensor
from ..precision import torch_dtype

_PIECE_BYTES = 4 << 20
_PIECE_ELEMENTS = 1 << 16


def read_box(values: Any, box: Part, into: Tensor) -> None:
    """Read a part of the FileValues of a tensor, converted to the type of `into`."""
    shape, sizes = values.entry.shape, box.sizes
    split = len(shape)  # the dimensions from here on are whole, so that what lies in them is read at once
    while split and sizes[split - 1] == shape[split - 1]:
        split -= 1
    split = max(split - 1, 0)
    count = prod(sizes[split:])
    for index in product(*map(range, sizes[:split])):
        first = 0
        for at, offset, length in zip((*index, 0), box.offsets[: split + 1], shape[: split + 1], strict=False):
            first = first * length + offset + at
        first *= prod(shape[split + 1 :])
        _read_run(values, first, count, into[index] if index else into)


def _read_run(values: Any, first: int, count: int, into: Tensor) -> None:
    """Read consecutive elements of a file into a tensor of as many, in pieces."""
    step = _PIECE_BYTES // values.stored.itemsize
    is_plain = values.stored == values.dtype == into.dtype != torch.bool and into.device.type == "cpu"
    if is_plain and into.is_contiguous():
        size = into.element_size()
        values.entry.read_into(first * size, bytes_at(into.data_ptr(), count * size))
        return
    if count <= step:
        copy_converted(into, values.read(first, first + count).view(into.shape))
        return
    inner = prod(into.shape[1:])
    if inner > step:  # rows that are too long themselves
        for at, row in enumerate(into):
            _read_run(values, first + at * inner, inner, row)
        return
    rows = step // inner
    for at in range(0, into.shape[0], rows):
        stop = min(at + rows, into.shape[0])
        rows_read = values.read(first + at * inner, first + stop * inner)
        copy_converted(into[at:stop], rows_read.view(into[at:stop].shape))


class LazyTensors(Mapping[str, Tensor]):
    """Name -> tensor of an open file, read into fresh memory at each access; `outline` has types, shapes and places."""

    def __init__(self, source: Source, outline: Outline) -> None:
        self.path, self.outline, self._source = source.path, outline, source
        self._entries = cast(Mapping[str, StoredTensor], outline.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Tensor:
        dtype, shape = self.dtype(name), self.shape(name)
        if (later := deferred_tensor(shape, dtype, lambda part: self.read(name, part))) is not None:
            return later
        try:
            tensor = torch.empty(shape, dtype=dtype, device="cpu")
        except RuntimeError as error:
            raise RecordFormatError(f"{self.path}: no tensor can have the shape of '{name}' ({error})") from error
        self.copy_into(name, tensor)
        return tensor

    def renamed(self, names: Mapping[str, str]) -> "LazyTensors":
        entries = {new: replace(self._entries[name], name=new) for name, new in names.items()}
        return LazyTensors(self._source, replace(self.outline, entries=entries))

    def dtype(self, name: str) -> torch.dtype:
        return torch_dtype(self._entries[name].dtype, name, self.path)

    def shape(self, name: str) -> torch.Size:
        return torch.Size(self._entries[name].shape)

    def values_of(self, name: str) -> "FileValues":
        entry = self._entries[name]
        return FileValues(entry, self.dtype(name), torch_dtype(entry.stored_as or entry.dtype, name, self.path))

    def read(self, name: str, part: Part | None) -> Tensor:
        """A part of a tensor, or None for all of it."""
        if part is None:
            return self[name]
        values = torch.empty(tuple(part.sizes), dtype=self.dtype(name), device="cpu")
        if values.numel():
            read_box(self.values_of(name), part, values)
        return values

    def check_length(self) -> None:
        """Raise RecordIOError if a file was cut since it was opened."""
        for source in {*map(attrgetter("source"), self._entries.values())}:
            source.check_length()

    def each_piece(self, name: str, do: Callable[[Tensor], object]) -> None:
        """Show the values to `do`, piece by piece: flat tensors that last for the call; several threads call it."""
        file_values = self.values_of(name)
        count = BLOCK_BYTES // file_values.stored.itemsize

        def read(first: int, buffer: Tensor) -> None:
            do(file_values.read(first, min(first + count, file_values.numel()), buffer))

        workers = 1 if file_values.entry.sequential else MAX_WORKERS
        run_steps(range(0, file_values.numel(), count), read, most_workers=workers)

    def copy_into(self, name: str, target: Tensor) -> None:
        """Read the values into `target`, which has the tensor's shape, in its type; raises RecordIOError."""
        target = target.detach()
        dtype = self.dtype(name)
        if (later := deferred_tensor(target.shape, dtype, lambda part: self.read(name, part))) is not None:
            target.copy_(later)
            return
        _read_run(self.values_of(name), 0, target.numel(), target)
        torch.autograd.graph.increment_version(target)  # the native read is not seen by autograd


def dtype_in(tensors: Mapping[str, Tensor], name: str) -> torch.dtype:
    """The type of a tensor of a record, without reading it."""
    return tensors.dtype(name) if isinstance(tensors, LazyTensors) else tensors[name].dtype


def shape_in(tensors: Mapping[str, Tensor], name: str) -> torch.Size:
    """The shape of a tensor of a record, without reading it."""
    return tensors.shape(name) if isinstance(tensors, LazyTensors) else tensors[name].shape


def merged(parts: Sequence[LazyTensors]) -> LazyTensors:
    """The tensors of several files, of different names, as those of one."""
    entries = {name: entry for part in parts for name, entry in part.outline.entries.items()}
    return LazyTensors(parts[0]._source, replace(parts[0].outline, entries=entries))


def renamed_tensors(tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> Mapping[str, Tensor]:
    """The tensors that `names` has a new name for; those of a file are not read."""
    if isinstance(tensors, LazyTensors):
        return tensors.renamed(names)
    return {new: tensors[name] for name, new in names.items()}


@dataclass(frozen=True, slots=True)
class FileValues:
    """The values of a tensor in a file: its entry, its type, and the type of the bytes."""

    entry: StoredTensor
    dtype: torch.dtype
    stored: torch.dtype

    def numel(self) -> int:
        return prod(self.entry.shape)

    def read(self, start: int, stop: int, buffer: Tensor | None = None) -> Tensor:
        """The elements `start` to `stop`, flat; in the memory of `buffer`, if there is one."""
        size = self.stored.itemsize
        count = (stop - start) * size
        raw = torch.empty(count, dtype=torch.uint8, device="cpu") if buffer is None else buffer[:count]
        self.entry.read_into(start * size, bytes_at(raw.data_ptr(), count))
        # A hostile file may hold bytes that are no bool; comparing makes them one.
        values = raw.view(torch.uint8 if self.stored == torch.bool else self.stored)
        return values.ne(0) if self.dtype == torch.bool else values

    def pieces(self, start: int, stop: int) -> Iterator[tuple[Tensor, int]]:
        """The elements `start` to `stop` in small pieces, each with the number of elements before it.

        Small, so that the same memory is used again: larger ones would pile up.
        """
        for at in range(start, stop, _PIECE_ELEMENTS):
            yield self.read(at, min(at + _PIECE_ELEMENTS, stop)), at - start
