"""Tensors in files: type and shape are known, values are read when they are needed."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordFormatError


class StoredTensors(Mapping[str, Tensor]):
    """Name -> tensor of a file, or of several; each access reads it whole, into fresh memory.

    Args:
        path: the file's or directory's name.
        entries: what is known of each tensor, by name.

    Attributes:
        path: likewise, for messages.
    """

    def __init__(self, path: str, entries: Mapping[str, Any]) -> None:
        self.path = path
        self._entries = entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Tensor:
        dtype, shape = self.dtype(name), self.shape(name)
        try:
            found = torch.empty(shape, dtype=dtype, device="cpu")
        except RuntimeError as error:
            raise RecordFormatError(f"{self.path}: no tensor can have the shape of '{name}' ({error})") from error
        self.copy_into(name, found)
        return found

    @abstractmethod
    def dtype(self, name: str) -> torch.dtype:
        """The type in the file."""

    @abstractmethod
    def shape(self, name: str) -> torch.Size:
        """The shape of the whole tensor."""

    @abstractmethod
    def copy_into(self, name: str, target: Tensor) -> None:
        """Read the values into `target`, which has the tensor's shape, in target's type and on its device.

        Raises:
            RecordIOError: reading fails.
        """


def dtype_in(tensors: Mapping[str, Tensor], name: str) -> torch.dtype:
    """The type of a tensor of a record, without reading it."""
    return tensors.dtype(name) if isinstance(tensors, StoredTensors) else tensors[name].dtype


def shape_in(tensors: Mapping[str, Tensor], name: str) -> torch.Size:
    """The shape of a tensor of a record, without reading it."""
    return tensors.shape(name) if isinstance(tensors, StoredTensors) else tensors[name].shape
