"""Steps that several processes end alike."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch.distributed as dist

from ...errors import RecordError, RecordIOError

T = TypeVar("T")


def is_several() -> bool:
    """Whether this is one of several processes that know each other."""
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

    def merged(
        self, facts: Mapping[str, str], own: Callable[[], T], merge: Callable[[Sequence[T]], T], *, may_lack: bool
    ) -> T:
        """What processes have, which `own` gives, put together; all raise if facts of one name are not the same.

        `own` is asked, and sent, only for the first of those that have the same facts. With `may_lack` a process may
        have no fact of a name.
        """
        digest = hashlib.sha256(json.dumps(sorted(facts.items())).encode()).hexdigest()
        digests = self.gathered(digest)
        if len(set(digests)) == 1:
            return own()
        is_first = digests.index(digest) == self.rank
        found = self.gathered((facts, own()) if is_first else None)
        several = {rank: it for rank, it in enumerate(found) if it is not None}
        known: dict[str, tuple[int, str]] = {}
        for rank, (theirs, _) in several.items():
            names = theirs if may_lack else {**known, **theirs}
            for name in names:
                fact = theirs.get(name, "missing")
                first, expected = known.setdefault(name, (rank, fact if may_lack or not rank else "missing"))
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
        found: list[Any] = [None] * dist.get_world_size()
        try:
            dist.all_gather_object(found, ours, group=self._group)
        except RuntimeError as error:  # the connection to one that was killed, or its time limit
            raise RecordIOError(f"{self._what}: another process has ended, or does not answer: {error}") from error
        return found
