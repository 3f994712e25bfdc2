"""Checks that the processes of a job see one and the same directory, as those of nodes with a common file system do."""

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..._regular_file import open_regular
from ...errors import RecordIOError
from ..safetensors.format import LENGTH_BYTES

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


@contextlib.contextmanager
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
            with contextlib.suppress(OSError):  # where it could not be written
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
                with contextlib.suppress(OSError):
                    if fingerprint(Path(directory, name)) == files[name]:
                        lacking.remove(name)
    return lacking
