"""Records of sharded modules (`fully_shard`), through `torch.distributed.checkpoint`.

Each process writes the parts that it holds, as safetensors files that torch's HuggingFaceStorageWriter lays out;
nothing is pickled. A file without tensors beside them, `record.safetensors`, has what burnlike adds. On loading, each
process reads, from whichever files hold them, the parts that its own sharding needs.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist
from torch import Tensor

from ..._atomic import AtomicDirectory
from ...errors import RecordError, RecordIOError
from ...module.torch_objects.wrappers import local
from .. import metadata
from ..dtypes import file_dtype, shown
from ..formats import DETAILS
from ..outline import Outline, TensorEntry
from ..precision import PrecisionRule, stored_dtype_of
from ..record import Record
from ..recorder import Recorder, checked_precision, converted, names_of, record_of, record_to_save
from ..safetensors.format import build_header
from ..safetensors.parts import FILES, check_directory, read_parts
from ..saving.writing import plain_tensor
from ..state_dict.own_code import entries_of
from ..state_dict.saved_forms import kept_tensors
from .shared_directory import fingerprint, not_one_directory, not_the_same_files

T = TypeVar("T")


class DistributedRecorder(Recorder):
    """Saves and loads records whose tensors are DTensors, each process its own parts; where there is one, all.

    `save` and `load` are called by all processes of the default group. A directory is there whole or not at all. Parts
    that are converted to a precision take memory meanwhile; None stores each tensor as it is.
    """

    def __init__(self, precision: PrecisionRule | None = None) -> None:
        self.precision, self._allow_overflow = checked_precision(precision)

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        """Write `record` to the directory `path`, which must not exist; the file system is one that all processes see.

        All processes first show that they see one directory, and rank 0 names it only when the files of all are there.
        If one process fails, all raise: the one its own error, the others a RecordIOError that tells it. So do the
        others where one is killed, as soon as torch's process group notices. See `FileRecorder.save` for errors;
        records of processes may not differ in names and ids.
        """
        target = Path(path)
        together = _Together(f"{target}: not saved")
        with ExitStack() as stack:
            with together:
                record = record_to_save(record)
                names, kept = names_of(record), kept_tensors(record.values)
                tensors = {name: self._stored(names[name], it, name in kept) for name, it in record.tensors.items()}
                taken: set[int] = set()
                for name, tensor in tensors.items():  # safetensors' own writer takes none that share memory
                    address = local(tensor).untyped_storage().data_ptr()
                    if address in taken and address:
                        tensors[name] = tensor.clone()
                    taken.add(address)
            together.check_alike(_facts(record, tensors))
            directory = None
            with together:
                if _rank() == 0:
                    if target.exists():
                        raise RecordIOError(f"{target} exists; choose another name or remove it first")
                    directory = stack.enter_context(AtomicDirectory(target))
            partial = target.with_name(together.gathered("" if directory is None else directory.path.name)[0])
            together.check_nothing(not_one_directory(partial, _rank(), together.gathered))
            with together:
                own = _write_parts(partial, tensors)
            written = {name: text for each in together.gathered(own) for name, text in each.items()}
            together.check_nothing(not_the_same_files(partial, {} if _rank() else written, together.gathered))
            with together:
                if directory is not None:
                    _write_details(partial, record, tensors)
                    for name in os.listdir(partial):
                        with open(partial / name, "rb") as file:
                            os.fsync(file.fileno())
                    directory.commit()
        return os.fspath(path)

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        """The record in the directory `path`; of its tensors, what a process needs is read when it is asked for.

        Raises RecordIOError if it can't be read, RecordFormatError if it is damaged, or no such directory.
        """
        check_directory(os.fspath(path))
        return record_of(*read_parts(os.fspath(path)))

    def _stored(self, names: Sequence[str], tensor: Tensor, as_it_is: bool) -> Tensor:
        """The tensor in the type that it is stored in, this process's part of it, without gaps."""
        name, tensor = names[0], tensor.detach()
        plain_tensor(name, local(tensor))
        target = tensor.dtype if as_it_is else stored_dtype_of(self.precision, names, tensor.dtype)
        file_dtype(target, name)
        return converted(name, tensor, target, self._allow_overflow).contiguous()


def _facts(record: Record, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The facts about tensors and entries in which all processes must agree; those of optimizers have ids as names."""
    facts = {
        name: f"{shown(it.dtype, it.shape)} with the ParamId {record.ids.get(name)}" for name, it in tensors.items()
    }
    return {**facts, **{name: f"{facts.get(name, '')} {tree!r}".strip() for name, tree in entries_of(record.values)}}


def _write_parts(directory: Path, tensors: dict[str, Any]) -> dict[str, str]:
    """Write the parts of this process; returns its files, with their fingerprints."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    files: set[str] = set()

    class Writer(HuggingFaceStorageWriter):
        def write_data(self, plan: Any, planner: Any) -> Any:
            written = super().write_data(plan, planner)
            files.update(it.storage_data.relative_path for it in written.value())
            return written

    writer = Writer(str(directory), save_distributed=True)
    try:
        with warnings.catch_warnings():  # torch tells each time that there is only one process
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            save(tensors, storage_writer=writer, no_dist=not _several())
    except CheckpointException as error:  # no Exception, and its text is a page of tracebacks
        reasons = {f"rank {rank}: {type(it[0]).__name__}: {it[0]}" for rank, it in error.failures.items()}
        raise RecordIOError(f"{directory}: writing failed: {'; '.join(sorted(reasons))}") from error
    return {name: fingerprint(directory / name) for name in files}


def _write_details(directory: Path, record: Record, tensors: Mapping[str, Tensor]) -> None:
    """Write what burnlike adds, and which files there are: without one, torch would take tensors for smaller ones."""
    entries = {name: TensorEntry(name, file_dtype(it.dtype, name), tuple(it.shape)) for name, it in tensors.items()}
    outline = Outline(entries, record.ids, record.aliases, record.values, record.states, metadata=record.metadata)
    files = sorted(path.name for path in directory.iterdir())
    head, _ = build_header((), {**metadata.encode(outline), FILES: json.dumps(files)})
    (directory / DETAILS).write_bytes(head)


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
        if error is not None and not isinstance(error, Exception):
            return  # an interrupt: the others find out by their time limit
        reasons = self.gathered(None if error is None else f"{type(error).__name__}: {error}")
        if isinstance(error, RecordError):
            return
        if failed := [f"rank {rank}: {reason}" for rank, reason in enumerate(reasons) if reason is not None]:
            raise RecordIOError(f"{self._what}: {'; '.join(failed)}") from error

    def check_nothing(self, problem: str) -> None:
        """Raise where there is a problem, of which all processes know."""
        if problem:
            raise RecordIOError(f"{self._what}: {problem}")

    def check_alike(self, facts: Mapping[str, str]) -> None:
        """Raise on every process if one says something else than the first."""
        digest = hashlib.sha256(json.dumps(sorted(facts.items())).encode()).hexdigest()
        if len(set(self.gathered(digest))) == 1:  # all facts of a thousand ranks would be a lot to send
            return
        ours, *others = self.gathered(facts)
        for rank, theirs in enumerate(others, 1):
            for name in [name for name in [*ours, *theirs] if ours.get(name) != theirs.get(name)][:1]:
                raise RecordError(
                    f"{self._what}: '{name}' is {ours.get(name, 'missing')} on rank 0, {theirs.get(name, 'missing')} on"
                    f" rank {rank}; every process saves its parts of the same tensors: call"
                    " burnlike.module.agree_ids(module) where ids differ"
                )

    def gathered(self, ours: T) -> list[T]:
        """The values of all processes, by rank."""
        if not _several():
            return [ours]
        found: list[Any] = [None] * dist.get_world_size()
        try:
            dist.all_gather_object(found, ours)
        except RuntimeError as error:  # the connection to one that was killed, or its time limit
            raise RecordIOError(f"{self._what}: another process has ended, or does not answer: {error}") from error
        return found
