"""Records of sharded modules (`fully_shard`), through `torch.distributed.checkpoint`.

Each process writes the parts that it holds, as safetensors files that torch's HuggingFaceStorageWriter lays out;
nothing is pickled. A file without tensors beside them, `record.safetensors`, has what burnlike adds. On loading, each
process reads, from whichever files hold them, the parts that its own sharding needs.

`DcpRecorder` writes directories of `torch.distributed.checkpoint`, for programs that load those. The planner and the
writer are torch's; `.metadata` is a pickle, as torch defines it. Reading, here, runs nothing.
"""

import json
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from ..._atomic import AtomicDirectory, replace_file
from ...errors import BurnlikeError, RecordIOError
from ...module.torch_objects.wrappers import local
from .. import metadata
from ..files.reading import read_outline
from ..formats import DETAILS, Outline, TensorEntry
from ..precision import PrecisionRule, file_dtype, shown, stored_dtype_of, torch_dtype
from ..record import Record, record_of
from ..recorder import Recorder, checked_precision, converted, names_of_tied, outline_of, record_to_save
from ..safetensors.format import FILES, build_header, check_directory, part_checksums, read_parts
from ..saving.writing import plain_tensor
from ..state_dict.module_state import entries_of, kept_tensors
from ..torch_files.dcp import OWN_TEXTS
from .together import Together, fingerprint, is_several, not_one_directory, not_the_same_files, send_file


class DistributedRecorder(Recorder):
    """Saves and loads records whose tensors are DTensors, each process its own parts; where there is one, all.

    `save` and `load` are called by all processes of a group. A directory is there whole or not at all. Parts that are
    converted to a precision take memory meanwhile; None stores each tensor as it is.
    """

    def __init__(
        self,
        precision: PrecisionRule | None = None,
        *,
        group: Any = None,
        elsewhere: Collection[int] = (),
        stages: bool = False,
    ) -> None:
        """Make a recorder; what it is given beside a precision is for `save`.

        Args:
            group: of all processes; None is the default one, and what is saved in another thread needs its own.
            elsewhere: the ranks that do not see the directories of rank 0, which gets their files and writes them.
            stages: whether processes may have other tensors, as the stages of a pipeline do.
        """
        self.precision, self._allow_overflow = checked_precision(precision)
        self._group, self._elsewhere, self._stages = group, frozenset(elsewhere), stages

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        """Write `record` to the directory `path`, which must not exist; the file system is one that all processes see.

        All processes first show that they see one directory, and rank 0 names it only when the files of all are there.
        If one process fails, all raise: the one its own error, the others a RecordIOError that tells it. So do the
        others where one is killed, as soon as torch's process group notices. See `FileRecorder.save` for errors;
        records of processes may not differ in names, but for stages, and never in the forms and ids of these.
        """
        target = Path(path)
        together = Together(f"{target}: not saved", self._group)
        together.expect_one_name(target)
        with ExitStack() as stack:
            with together:
                record = record_to_save(record)
                names, kept = names_of_tied(record.aliases), kept_tensors(record.values)
                tensors = {
                    name: self._stored(names.get(name, [name]), it, name in kept) for name, it in record.tensors.items()
                }
                taken: set[int] = set()
                for name, tensor in tensors.items():  # safetensors' own writer takes none that share memory
                    address = local(tensor).untyped_storage().data_ptr()
                    if address in taken and address:
                        tensors[name] = tensor.clone()
                    taken.add(address)
            facts = _facts(record, tensors)
            about = together.merged(facts, lambda: _outline(record, tensors), _joined, may_lack=self._stages)
            directory = None
            with together:
                if together.rank == 0:
                    if target.exists():
                        raise RecordIOError(f"{target} exists; choose another name or remove it first")
                    directory = stack.enter_context(AtomicDirectory(target))
            # The name of the directory is drawn by rank 0, and is the same for all only by being told.
            partial = target.with_name(together.gathered("" if directory is None else directory.path.name)[0])
            checksums = self._write(together, stack, partial, tensors)
            with together:
                if directory is not None:
                    # Which files there are: without one, torch would take tensors for smaller ones.
                    files = {path.name: checksums.get(path.name, "") for path in sorted(partial.iterdir())}
                    head, _ = build_header((), {**metadata.encode(about), FILES: json.dumps(files)})
                    replace_file(partial / DETAILS, head)
                    directory.commit()
        return os.fspath(path)

    def _write(self, together: Together, stack: ExitStack, partial: Path, tensors: dict[str, Any]) -> dict[str, str]:
        """Have the files of all processes in the directory `partial` of rank 0; returns the checksums of each."""
        is_elsewhere = together.rank in self._elsewhere
        if not self._elsewhere:
            together.check_nothing(not_one_directory(partial, together.rank, together.gathered))
        own_directory = partial
        with together:
            if is_elsewhere:
                if not partial.parent.exists():
                    partial.parent.mkdir(parents=True)
                    stack.callback(partial.parent.rmdir)
                directory = stack.enter_context(TemporaryDirectory(prefix=f".{partial.name}-", dir=partial.parent))
                own_directory = Path(directory)
        with together:
            own_files = _write_parts(own_directory, tensors, self._group)
        written = together.gathered(own_files)
        here = {
            name: text
            for rank, each in enumerate(written)
            if rank not in self._elsewhere
            for name, (text, _) in each.items()
        }
        together.check_nothing(not_the_same_files(partial, {} if together.rank else here, together.gathered))
        with together:
            for rank in sorted(self._elsewhere):
                for name in sorted(written[rank]):
                    send_file(own_directory / name, partial / name, rank, 0, self._group)
        return {name: checksums for each in written for name, (_, checksums) in each.items()}

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


def _write_parts(directory: Path, tensors: dict[str, Any], group: Any) -> dict[str, tuple[str, str]]:
    """Write the parts of this process; returns its files, with their fingerprints and checksums."""
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
            save(tensors, storage_writer=writer, process_group=group, no_dist=not is_several())
    except CheckpointException as error:  # no Exception, and its text is a page of tracebacks
        reasons = {f"rank {rank}: {type(it[0]).__name__}: {it[0]}" for rank, it in error.failures.items()}
        raise RecordIOError(f"{directory}: writing failed: {'; '.join(sorted(reasons))}") from error
    return {name: (fingerprint(directory / name), part_checksums(directory / name)) for name in files}


def _outline(record: Record, tensors: Mapping[str, Tensor]) -> Outline:
    """The content of a process's part, without values; sent to rank 0 where processes have other tensors."""
    entries = {name: TensorEntry(name, file_dtype(it.dtype, name), tuple(it.shape)) for name, it in tensors.items()}
    texts = {"states": record.states, "metadata": record.metadata}
    return Outline(entries, record.ids, record.aliases, record.values, **texts)


def _joined(outlines: Sequence[Outline]) -> Outline:
    """The content of all processes' parts together; where plain values differ, that of the first counts."""
    joined = outlines[0]
    for outline in outlines[1:]:
        joined = replace(
            joined,
            entries={**outline.entries, **joined.entries},
            ids={**outline.ids, **joined.ids},
            aliases={**outline.aliases, **joined.aliases},
            values=_joined_values(joined.values, outline.values),
            states=frozenset({*joined.states, *outline.states}),
        )
    return joined


def _joined_values(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = first.keys() & other.keys()
    return {**other, **first, **{key: _joined_value(first[key], other[key]) for key in both}}


def _joined_value(first: Any, other: Any) -> Any:
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        return _joined_values(first, other)
    if isinstance(first, list) and isinstance(other, list):  # groups of torch's optimizers, each with its ids
        if len(first) == len(other) and all(isinstance(it, Mapping) for it in (*first, *other)):
            return [_joined_values(*pair) for pair in zip(first, other, strict=True)]
        if all(isinstance(it, str) for it in (*first, *other)):
            return [*dict.fromkeys([*first, *other])]
    return first


class DcpRecorder(Recorder):
    """Writes records as directories that `torch.distributed.checkpoint.load` reads, in a precision.

    It is called by one process and holds one tensor at a time. Each tensor and each plain value is an entry of its
    dotted name; tied tensors are entries of each of their names. Ids and the like are in the entry `burnlike`.
    """

    def __init__(self, precision: PrecisionRule | None = None) -> None:
        self.precision, self._allow_overflow = checked_precision(precision)

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        """Write `record` to the directory `path`, which must not exist; it is there whole or not at all.

        See `FileRecorder.save` for errors.
        """
        record, target = record_to_save(record), Path(path)
        if os.path.lexists(target):
            raise RecordIOError(f"{target} exists; choose another name or remove it first")
        outline = outline_of(record, self.precision)
        forms = {
            name: torch.empty(entry.shape, dtype=torch_dtype(entry.dtype, name, record.source), device="meta")
            for name, entry in outline.entries.items()
        }
        content: dict[str, Any] = {**forms, **{alias: forms[name] for alias, name in record.aliases.items()}}
        content |= {name: value for name, value in _flat(record.values) if name not in content}
        if texts := metadata.own_texts(outline):
            content[OWN_TEXTS] = texts

        def values_of(name: str) -> Tensor:
            name = record.aliases.get(name, name)
            return converted(name, record.tensors[name].detach(), forms[name].dtype, self._allow_overflow).contiguous()

        try:
            with AtomicDirectory(target) as partial:
                _write(partial.path, content, values_of)
                partial.commit()
        except (OSError, RuntimeError) as error:  # the second of torch's own writer
            if isinstance(error, BurnlikeError):
                raise
            reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            raise RecordIOError(
                f"{target}: can't be written: {reason}; is the disk full? free some space, or choose another place"
            ) from error
        return os.fspath(path)

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        """The record in a directory of `torch.distributed.checkpoint`; see `burnlike.record.open_record`."""
        return record_of(*read_outline(path))


def _flat(values: Any, prefix: str = "") -> Any:
    """The plain values by dotted names; lists and empty maps are values."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _write(directory: Path, content: dict[str, Any], values_of: Any) -> None:
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    class Planner(DefaultSavePlanner):
        """Plans with forms alone, and asks for the values of one tensor after the other."""

        def lookup_object(self, index: Any) -> Any:
            looked_up = super().lookup_object(index)
            return values_of(index.fqn) if isinstance(looked_up, Tensor) else looked_up

    writer = FileSystemWriter(str(directory), sync_files=False)
    planner = Planner(flatten_state_dict=False)
    try:
        with warnings.catch_warnings():  # torch tells each time that there is only one process
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            save(content, storage_writer=writer, planner=planner, no_dist=True)
    except CheckpointException as error:  # no Exception; it has those of the writer inside
        reason = next((failure[0] for failure in error.failures.values()), error)
        if isinstance(reason, Exception):
            raise reason from error
        raise
