"""The tensors of a file, read when asked for.

Bytes are read by position into memory of our own, never mapped: a mapped file that is cut short by someone else kills
the process, and a tensor here stays what it was whatever happens to the file. The file stays open, so a record loaded
before its file was replaced goes on reading the old one.
"""

import mmap
import os
import weakref
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from ..errors import RecordFormatError, RecordIOError
from .convert import pieces
from .dtypes import torch_dtype
from .safetensors_format import Header, TensorInfo
from .stream import bytes_at

_CHUNK_BYTES = 4 << 20


class LazyTensors(Mapping[str, Tensor]):
    """Name -> tensor of an open file; each access reads it into fresh memory.

    Attributes:
        path: the file's name, for messages.
        header: names, types, shapes and places.
    """

    def __init__(self, descriptor: int, path: str, header: Header) -> None:
        self.path = path
        self.header = header
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __iter__(self) -> Iterator[str]:
        return iter(self.header.tensors)

    def __len__(self) -> int:
        return len(self.header.tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.header.tensors

    def __getitem__(self, name: str) -> Tensor:
        info = self.header.tensors[name]
        try:
            found = torch.empty(info.shape, dtype=self.dtype(name))
        except RuntimeError as error:
            raise RecordFormatError(f"{self.path}: no tensor can have the shape of '{name}' ({error})") from error
        self.copy_into(name, found)
        return found

    def dtype(self, name: str) -> torch.dtype:
        """The type in the file."""
        return torch_dtype(self.header.tensors[name].dtype, name, self.path)

    def shape(self, name: str) -> torch.Size:
        """The shape in the file."""
        return torch.Size(self.header.tensors[name].shape)

    def check_length(self) -> None:
        """Raise if the file was cut since it was opened.

        Raises:
            RecordIOError: it is shorter than its header says.
        """
        length = os.fstat(self._descriptor).st_size
        if length < self.header.file_bytes:
            raise RecordIOError(
                f"{self.path}: was cut to {length} of {self.header.file_bytes} bytes after it was opened; "
                "save or fetch it again"
            )

    def chunks(self, name: str) -> Iterator[tuple[Tensor, int]]:
        """The values in pieces of a few megabytes: flat tensors, valid until the next one, and the index of the first.

        Raises:
            RecordIOError: reading fails.
        """
        info, dtype = self.header.tensors[name], self.dtype(name)
        buffer = _buffer(min(_CHUNK_BYTES, info.nbytes))
        for begin in range(0, info.nbytes, _CHUNK_BYTES):
            count = min(_CHUNK_BYTES, info.nbytes - begin)
            self._read(info, begin, bytes_at(buffer.data_ptr(), count))
            raw = buffer[:count]
            # A hostile file may hold bytes that are no bool; comparing makes them one.
            yield raw.ne(0) if dtype == torch.bool else raw.view(dtype), begin // dtype.itemsize

    def copy_into(self, name: str, target: Tensor) -> None:
        """Read the values into `target`, which has the tensor's shape, in target's type and on its device.

        Raises:
            RecordIOError: reading fails.
        """
        target = target.detach()
        dtype = self.dtype(name)
        info = self.header.tensors[name]
        if dtype == target.dtype != torch.bool and target.device.type == "cpu" and target.is_contiguous():
            self._read(info, 0, bytes_at(target.data_ptr(), info.nbytes))
            torch.autograd.graph.increment_version(target)
            return
        for values, first in self.chunks(name):
            for into, before in pieces(target, first, first + values.numel()):
                into.copy_(values[before : before + into.numel()].view(into.shape))

    def _read(self, info: TensorInfo, begin: int, into: memoryview) -> None:
        offset = info.start + begin
        while into:
            try:
                count = os.preadv(self._descriptor, [into], offset)
            except OSError as error:
                raise RecordIOError(f"{self.path}: reading '{info.name}' failed: {error.strerror}") from error
            if count == 0:
                raise RecordIOError(f"{self.path}: ends within '{info.name}'; save or fetch it again")
            into, offset = into[count:], offset + count


def _buffer(count: int) -> Tensor:
    """Memory for `count` bytes that goes back to the system at once; the allocator would keep one for each tensor."""
    if count < _CHUNK_BYTES:
        return torch.empty(count, dtype=torch.uint8)
    return torch.frombuffer(mmap.mmap(-1, count), dtype=torch.uint8)
