"""The tensors of a directory that several processes wrote, read whole or in parts."""

import os
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordFormatError, RecordIOError
from ..bytes.budget import Budget
from ..bytes.source import FileSource
from ..dtypes import file_dtype
from ..files.sharded import DETAILS
from ..files.stored_tensors import ShardedTensors
from ..formats import DEFAULT_EXTENSION
from ..outline import TensorEntry
from ..safetensors.header import read_header


class DistributedTensors(ShardedTensors):
    """Name -> tensor of a directory that `DistributedRecorder` wrote; each access reads the whole tensor."""

    def __init__(self, path: str, budget: Budget | None = None) -> None:
        self._metadata = _read_metadata(path, budget or Budget(path))
        super().__init__(path, self._metadata.state_dict_metadata)

    def dtype(self, name: str) -> torch.dtype:
        return self._entries[name].properties.dtype

    def shape(self, name: str) -> torch.Size:
        return self._entries[name].size

    def entries(self) -> dict[str, TensorEntry]:
        return {name: TensorEntry(name, file_dtype(self.dtype(name), name), tuple(self.shape(name))) for name in self}

    def read_into(self, targets: Mapping[str, Tensor]) -> None:
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
        from torch.distributed.checkpoint.state_dict_loader import load

        reader = HuggingFaceStorageReader(self.path)
        reader.read_metadata = lambda: self._metadata  # every file's header has been read
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
                load(dict(targets), storage_reader=reader, no_dist=True)
        except (Exception, CheckpointException) as error:  # whatever torch raises for files that are cut or gone
            raise RecordIOError(f"{self.path}: reading failed: {error}") from error


def _read_metadata(path: str, budget: Budget) -> Any:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    if not os.path.exists(path):
        raise RecordIOError(f"{path}: no such directory")
    if not os.path.isfile(os.path.join(path, DETAILS)):
        raise RecordFormatError(
            f"{path}: expected a directory that DistributedRecorder wrote, it has no file {DETAILS}"
        )
    try:
        for name in sorted(os.listdir(path)):
            if name.endswith(DEFAULT_EXTENSION) and name != DETAILS:
                read_header(FileSource(os.path.join(path, name), budget))  # torch's reader trusts what is there
        return HuggingFaceStorageReader(path).read_metadata()
    except Exception as error:
        raise RecordFormatError(f"{path}: its files can't be read: {error}") from error
