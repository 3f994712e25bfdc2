"""Records of modules that are spread over processes (`fully_shard`), through `torch.distributed.checkpoint`.

Each process writes the parts that it holds, as safetensors files that torch's HuggingFaceStorageWriter lays out;
nothing is pickled. A file without tensors beside them, `record.safetensors`, has what burnlike adds: ids, aliases,
states, values. On loading, torch's planner reads, from whichever files hold them, the parts that the module's own
sharding needs.
"""

import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from .._atomic_file import sync_directory
from ..errors import RecordError, RecordIOError
from ..module.wrappers import is_distributed
from . import metadata
from .convert import can_lose, check_floats, check_ints
from .distributed_tensors import DETAILS, DistributedTensors
from .dtypes import file_dtype
from .outline import Entry, Outline
from .precision import PrecisionRule
from .record import Record
from .recorder import Recorder, checked_precision
from .safetensors_format import build_header, read_header
from .source import FileSource


class DistributedRecorder(Recorder):
    """Saves and loads records whose tensors are DTensors, each process its own parts; where there is one, all.

    `save` and `load` are called by all processes of the default group. A directory is there whole or not at all.

    Args:
        precision: types to store in; None stores each tensor as it is. Converted parts take memory meanwhile.
    """

    def __init__(self, precision: PrecisionRule | None = None) -> None:
        self.precision, self._allow_overflow = checked_precision(precision)

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        """Write `record` to the directory `path`, which must not exist; the file system is one that all processes see.

        Raises:
            RecordIOError: the directory exists, or can't be written; raised by every process.
            PrecisionError: a value can't be stored in the precision; raised by every process.
            RecordError: see `FileRecorder.save`.
        """
        from torch.distributed.checkpoint import HuggingFaceStorageWriter, save

        target = Path(path)
        partial = target.with_name(f".{target.name}.partial")
        together = _Together(f"{target}: not saved")
        with together:
            tensors = {name: self._stored(name, tensor) for name, tensor in record.tensors.items()}
            if _rank() == 0:
                if target.exists():
                    raise RecordIOError(f"{target} exists; choose another name or remove it first")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                _write_details(partial / DETAILS, record, tensors)
        with together:
            writer = HuggingFaceStorageWriter(str(partial), save_distributed=True)
            with warnings.catch_warnings():  # torch tells each time that there is only one process
                warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
                save(tensors, storage_writer=writer, no_dist=not _several())
        with together:
            if _rank() == 0:
                _sync(partial)
                partial.rename(target)
                sync_directory(target.parent)
        return os.fspath(path)

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        """The record in the directory `path`; of its tensors, what a process needs is read when it is asked for.

        Raises:
            RecordIOError: it can't be read.
            RecordFormatError: it is no such directory, or damaged.
        """
        tensors = DistributedTensors(os.fspath(path))
        source = FileSource(Path(path) / DETAILS)
        outline = metadata.decode(read_header(source).metadata, tensors.entries(), source.path)
        return Record(
            tensors,
            outline.values,
            outline.ids,
            outline.aliases,
            os.fspath(path),
            outline.states,
            None,
            outline.metadata,
        )

    def _stored(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor in the type that it is stored in, this process's part of it."""
        tensor = tensor.detach()
        target = self.precision.stored_dtype(name, tensor.dtype)
        file_dtype(target, name)
        if target == tensor.dtype:
            return tensor
        converted = tensor.to(target)
        before, after = (it.to_local() if is_distributed(it) else it for it in (tensor, converted))
        if can_lose(tensor.dtype, target):
            if not target.is_floating_point:
                check_ints(name, before, target)
            elif not self._allow_overflow:
                check_floats(name, before, after)
        return converted


def _write_details(path: Path, record: Record, tensors: Mapping[str, Tensor]) -> None:
    entries = {
        name: Entry(name, file_dtype(tensor.dtype, name), tuple(tensor.shape)) for name, tensor in tensors.items()
    }
    outline = Outline(entries, record.ids, record.aliases, record.values, record.states, metadata=record.metadata)
    head, _ = build_header((), metadata.encode(outline))
    path.write_bytes(head)


def _sync(directory: Path) -> None:
    for file in directory.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_directory(directory)


def _several() -> bool:
    return dist.is_available() and dist.is_initialized()


def _rank() -> int:
    return dist.get_rank() if _several() else 0


class _Together:
    """A step that all processes end alike: if one fails, all raise."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        reasons: list[str | None] = [None if error is None else f"{type(error).__name__}: {error}"]
        if error is not None and not isinstance(error, Exception):
            return  # an interrupt: the others find out by their time limit
        if _several():
            reasons = [None] * dist.get_world_size()
            dist.all_gather_object(reasons, None if error is None else f"{type(error).__name__}: {error}")
        if isinstance(error, RecordError):
            return
        failed = [f"rank {rank}: {reason}" for rank, reason in enumerate(reasons) if reason is not None]
        if failed:
            raise RecordIOError(f"{self._what}: {'; '.join(failed)}") from error
