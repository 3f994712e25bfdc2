"""Steps that several processes end alike: records copied for a save, files sent where they share no file system.

And checks that they see one and the same directory, as those of nodes with a common file system do.
"""

import copy
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..._regular_file import open_regular
from ..._torch_compat.distributed import cpu_mesh
from ...errors import RecordError, RecordIOError
from ...module.torch_objects.wrappers import is_distributed
from ..bytes.values import bytes_at
from ..record import Record
from ..recorder import copied
from ..safetensors.format import LENGTH_BYTES


def copied_parts(record: Record) -> Record:
    """The record with copies of this process's values in the CPU's memory; nothing is sent."""
    if not any(is_distributed(tensor) for tensor in record.tensors.values()):
        return copied(record)
    tensors = {name: _copied(tensor) for name, tensor in record.tensors.items()}
    return replace(record, tensors=tensors, values=copy.deepcopy(record.values))


def _copied(tensor: Any) -> Tensor:
    if not is_distributed(tensor):
        return tensor.detach().to("cpu", copy=True)
    from torch.distributed.tensor import DTensor

    local = tensor.detach().to_local().to("cpu", copy=True)
    place = {"shape": tensor.shape, "stride": tensor.stride(), "run_check": False}
    return DTensor.from_local(local, cpu_mesh(tensor.device_mesh), tensor.placements, **place)


_BLOCK_BYTES = 8 << 20


def send_file(source: Path, target: Path, sender: int, receiver: int, group: Any = None) -> None:
    """Copy the file `source` of rank `sender` to `target` of rank `receiver`; for others it does nothing.

    An OSError of one of the two is raised there when the other has sent or got all blocks.
    """
    rank = dist.get_rank()
    if rank not in (sender, receiver):
        return
    problem: OSError | None = None
    size = torch.zeros(1, dtype=torch.int64)
    with ExitStack() as stack:
        file: Any = None
        try:
            if rank == sender:
                file = stack.enter_context(open(source, "rb"))
                size[0] = source.stat().st_size
            else:
                file = stack.enter_context(open(target, "wb"))
        except OSError as error:
            problem = error
        _pass(size, sender, receiver, group)
        # Blocks are sent and got even after an error: the other process waits for each of them.
        for at in range(0, int(size), _BLOCK_BYTES):
            block = torch.zeros(min(_BLOCK_BYTES, int(size) - at), dtype=torch.uint8)
            if rank == receiver:
                _pass(block, sender, receiver, group)
            try:
                if problem is None:
                    bytes_of = bytes_at(block.data_ptr(), block.numel())
                    if (file.readinto if rank == sender else file.write)(bytes_of) != len(bytes_of):
                        problem = OSError(f"{source} was cut while it was sent")
            except OSError as error:
                problem = error
            if rank == sender:
                _pass(block, sender, receiver, group)
    if problem is not None:
        raise problem


def _pass(tensor: torch.Tensor, sender: int, receiver: int, group: Any) -> None:
    if dist.get_rank() == sender:
        dist.send(tensor, receiver, group=group)
    else:
        dist.recv(tensor, sender, group=group)


T = TypeVar("T")


def is_several() -> bool:
    """True if this is one of several processes that know each other."""
    return dist.is_available() and dist.is_initialized()


class Together:
    """A `with` block that all processes end alike: if one fails, all raise."""

    def __init__(self, what: str, group: Any = None) -> None:
        self._what, self._group = what, group
        self.rank = dist.get_rank() if is_several() else 0

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

    def expect_one_name(self, path: Path) -> None:
        """Raise unless all processes give a path the same name, which is that of rank 0's directory."""
        names = self.gathered(path.name)
        other = next((rank for rank, name in enumerate(names) if name != names[0]), 0)
        differing = f"rank 0 gives the name '{names[0]}', rank {other} '{names[other]}'"
        self.check_nothing(f"{differing}; let all save under the name that rank 0 sends them" if other else "")

    def merged(
        self, facts: Mapping[str, str], own_value: Callable[[], T], merge: Callable[[Sequence[T]], T], *, may_lack: bool
    ) -> T:
        """The values of all processes as one, if their facts agree; all raise if facts of one name are not the same.

        `own_value` is asked, and sent, only for the first of those that have the same facts. With `may_lack` a process
        may have no fact of a name.
        """
        # Digests first: nearly always all have the same facts, which are long.
        digest = hashlib.sha256(json.dumps(sorted(facts.items())).encode()).hexdigest()
        digests = self.gathered(digest)
        if len(set(digests)) == 1:
            return own_value()
        is_first = digests.index(digest) == self.rank
        answers = self.gathered((facts, own_value()) if is_first else None)
        several = {rank: answer for rank, answer in enumerate(answers) if answer is not None}
        first_seen: dict[str, tuple[int, str]] = {}
        for rank, (theirs, _) in several.items():
            names = theirs if may_lack else {**first_seen, **theirs}
            for name in names:
                fact = theirs.get(name, "missing")
                first, expected = first_seen.setdefault(name, (rank, fact if may_lack or not rank else "missing"))
                if fact != expected:
                    raise RecordError(
                        f"{self._what}: '{name}' is {expected} on rank {0 if expected == 'missing' else first}, {fact}"
                        f" on rank {rank}; every process saves its parts of the same tensors: call"
                        " burnlike.module.agree_ids(module) where ids differ"
                    )
        return merge([content for _, content in several.values()])

    def gathered(self, ours: T) -> list[T]:
        """The values of all processes, by rank."""
        if not is_several():
            return [ours]
        answers: list[Any] = [None] * dist.get_world_size()
        try:
            dist.all_gather_object(answers, ours, group=self._group)
        except RuntimeError as error:  # the connection to one that was killed, or its time limit
            raise RecordIOError(f"{self._what}: another process has ended, or does not answer: {error}") from error
        return answers


_WAITS_S = (0.0, 0.1, 0.4, 1.5, 3.0)  # before each look: a network file system may show what is new seconds later
_REMEDY = "all nodes need one file system, such as NFS, that has this directory at the same path; put it there"


def not_one_directory(directory: str | os.PathLike[str], rank: int, gather: Callable[[Any], list[Any]]) -> str:
    """The places where files of rank 0 in `directory` are not seen, the same text on all; empty where all see them.

    All must ask. The directory is made if it is not there; nothing stays in it. `gather` gives the values of all
    processes, by rank.
    """
    with _marked(directory, rank, gather) as (files, problem):
        return problem or not_the_same_files(directory, files, gather, "looked at {place}")


def ranks_elsewhere(directory: str | os.PathLike[str], rank: int, gather: Callable[[Any], list[Any]]) -> list[int]:
    """The ranks that look in vain for what rank 0 writes to `directory`; see `not_one_directory`."""
    with _marked(directory, rank, gather) as (files, problem):
        if problem:
            raise RecordIOError(problem)
        return [rank for rank, lacking in enumerate(gather(_lacking_in_time(directory, files))) if lacking]


@contextmanager
def _marked(
    directory: str | os.PathLike[str], rank: int, gather: Callable[[Any], list[Any]]
) -> Iterator[tuple[dict[str, str], str]]:
    """A file that rank 0 has written for others to look for, with its fingerprint; and why it could not."""
    marker, written, problem = Path(directory, f".seen-{os.urandom(12).hex()}"), "", ""
    try:
        if rank == 0:
            try:
                marker.parent.mkdir(parents=True, exist_ok=True)
                marker.write_text(marker.name)
                written = fingerprint(marker)
            except OSError as error:
                problem = f"{marker.parent} can't be written: {error.strerror}"
        name, written, problem = gather((marker.name, written, problem))[0]
        yield {name: written}, problem
    finally:
        if rank == 0:
            with suppress(OSError):  # where it could not be written
                marker.unlink()


def not_the_same_files(
    directory: str | os.PathLike[str],
    files: Mapping[str, str],
    gather: Callable[[Any], list[Any]],
    problem: str = "misses {names} at {place}, or has others",
) -> str:
    """The same as `not_one_directory`, for files that each process expects in it, with their fingerprints."""
    places = gather((sorted(_lacking_in_time(directory, files)), place_of(directory)))
    blind = [
        f"rank {rank} {problem.format(names=', '.join(names[:3]), place=place)}"
        for rank, (names, place) in enumerate(places)
        if names
    ]
    told = f"not all processes see what was written to {places[0][1]}: {'; '.join(blind)}; {_REMEDY}"
    return told if blind else ""


def fingerprints(directory: str | os.PathLike[str]) -> dict[str, str]:
    root = Path(directory)
    return {str(path.relative_to(root)): fingerprint(path) for path in root.rglob("*") if path.is_file()}


def fingerprint(file: Path) -> str:
    """The size of a safetensors file and a hash of its header, which has the checksums of what burnlike wrote."""
    with open_regular(file) as opened:
        size = os.fstat(opened.fileno()).st_size
        length = opened.read(LENGTH_BYTES)
        header = opened.read(min(int.from_bytes(length, "little"), size))
    return f"{size} {hashlib.sha256(length + header).hexdigest()}"


def place_of(directory: str | os.PathLike[str]) -> str:
    """The machine and the path of a directory."""
    return f"{platform.node()}:{os.path.abspath(directory)}"


def _lacking_in_time(directory: str | os.PathLike[str], files: Mapping[str, str]) -> list[str]:
    """The names of those that are not there with their fingerprints, after they were waited for."""
    lacking = [*files]
    for wait_s in _WAITS_S:
        if lacking:
            time.sleep(wait_s)
            for name in [*lacking]:
                with suppress(OSError):
                    if fingerprint(Path(directory, name)) == files[name]:
                        lacking.remove(name)
    return lacking
