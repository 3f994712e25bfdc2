"""How several processes write and read the checkpoints of a run, whose directory rank 0 has."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from ...errors import CheckpointError
from ...record.distributed.together import (
    fingerprints,
    not_one_directory,
    not_the_same_files,
    place_of,
    ranks_elsewhere,
    send_file,
)
from ..checkpoint.checkpointer import (
    Checkpoint,
    Checkpointer,
    FollowingCheckpointer,
    SilentCheckpointer,
    write_together,
)

if TYPE_CHECKING:
    from .distributed import SeveralProcesses

_REMEDY = ", or set checkpoint.gather: true, with which rank 0 gets the parts of all and writes them"


class CheckpointFiles:
    """The files of a job's checkpoints. All processes make it and call its methods together.

    Attributes:
        elsewhere: the ranks that do not see the directory of rank 0; with `gathers` they send and get files.
    """

    def __init__(self, directory: Path, parallel: "SeveralProcesses", *, gathers: bool) -> None:
        """Look who sees the directory; a CheckpointError where all must and don't."""
        self._parallel, self._gathers = parallel, gathers
        timeout = timedelta(minutes=parallel.config.timeout_minutes)
        self._group = dist.new_group(backend="gloo", timeout=timeout)  # saves in the background send by it
        self.elsewhere: frozenset[int] = frozenset()
        if gathers:
            self.elsewhere = frozenset(ranks_elsewhere(directory, parallel.rank, parallel.gather))
        elif parallel.is_sharded and (problem := not_one_directory(directory, parallel.rank, parallel.gather)):
            raise CheckpointError(f"each process writes its part of a checkpoint: {problem}{_REMEDY}")

    def checkpointer(self, directory: Path, keep: int) -> Checkpointer:
        parallel = self._parallel
        if not parallel.is_sharded:
            return (Checkpointer if parallel.is_main else SilentCheckpointer)(directory, keep)
        kind = Checkpointer if parallel.is_main else FollowingCheckpointer
        return kind(directory, keep, partial(write_together, group=self._group, elsewhere=self.elsewhere))

    def latest(self, checkpointer: Checkpointer) -> Checkpoint | None:
        """The last checkpoint of rank 0, which all see or get."""
        parallel = self._parallel
        newest = checkpointer.latest() if parallel.is_main else None
        if self._gathers:
            return parallel.broadcast(newest)
        newest, files = parallel.broadcast(newest and (newest, fingerprints(newest.path))) or (None, {})
        if newest is not None and (problem := not_the_same_files(newest.path, files, parallel.gather)):
            raise CheckpointError(f"each process reads the checkpoint to go on from: {problem}{_REMEDY}")
        return newest

    @contextmanager
    def reading(self, checkpoint: Checkpoint) -> Iterator[Checkpoint]:
        """The checkpoint as this process can read it within the `with` block: rank 0 sends what others don't see."""
        if not self.elsewhere:
            yield checkpoint
            return
        parallel, rank = self._parallel, self._parallel.rank
        places = parallel.gather(place_of(checkpoint.path))
        receivers = [it for it in sorted(self.elsewhere) if not {*places[:it]} & {places[it]}]
        with ExitStack() as stack:
            folder: Path | None = None
            if rank in receivers:
                checkpoint.path.parent.mkdir(parents=True, exist_ok=True)
                temporary = TemporaryDirectory(prefix=".received-", dir=checkpoint.path.parent)
                folder = Path(stack.enter_context(temporary))
            paths: list[Any] = parallel.gather(folder)
            files = sorted(str(it.relative_to(checkpoint.path)) for it in checkpoint.path.rglob("*") if it.is_file())
            for receiver in receivers:
                for file in parallel.broadcast(files):
                    target = paths[receiver] / file
                    if rank == receiver:
                        target.parent.mkdir(parents=True, exist_ok=True)
                    send_file(checkpoint.path / file, target, 0, receiver, self._group)
            parallel.broadcast(None)
            at = places.index(places[rank])
            yield checkpoint if rank not in self.elsewhere else checkpoint._replace(path=paths[at])
            parallel.broadcast(None)  # all have read
