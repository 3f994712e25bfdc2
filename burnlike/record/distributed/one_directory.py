"""Whether the processes of a job see one and the same directory, as those of nodes with a common file system do."""

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..._regular_file import read_regular

_WAITS_S = (0.0, 0.1, 0.4, 1.5, 3.0)
"""Before each look: a network file system may show what another node wrote some seconds later."""

_REMEDY = "all nodes need one file system, such as NFS, that has this directory at the same path; put it there"


def not_one_directory(directory: str | os.PathLike[str], rank: int, gather: Callable[[Any], list[Any]]) -> str:
    """Find out whether all processes see what rank 0 writes to `directory`; all must ask.

    Args:
        directory: made by rank 0, if it is not there; nothing stays in it.
        rank: of this process.
        gather: gives the values of all processes, by rank.

    Returns:
        Empty where they do; else a text that is the same on all processes: where each of them looked in vain.
    """
    marker, problem = Path(directory, f".seen-{os.urandom(12).hex()}"), ""
    try:
        if rank == 0:
            try:
                marker.parent.mkdir(parents=True, exist_ok=True)
                marker.write_text(marker.name)
            except OSError as error:
                problem = f"{marker.parent} can't be written: {error.strerror}"
        name, problem = gather((marker.name, problem))[0]
        if problem:
            return problem
        places = gather((_reads(Path(directory, name)), _place(directory)))
    finally:
        marker.unlink(missing_ok=True)
    return _told([f"rank {it} looked at {place}" for it, (seen, place) in enumerate(places) if not seen], places[0][1])


def not_the_same_files(
    directory: str | os.PathLike[str], sizes: dict[str, int], gather: Callable[[Any], list[Any]]
) -> str:
    """As `not_one_directory`, for files of `directory` that each process expects there, with their sizes in bytes."""
    lacking = {name: size for name, size in sizes.items() if not _has(Path(directory, name), size)}
    places = gather((sorted(lacking), _place(directory)))
    blind = [
        f"rank {rank} misses {', '.join(names[:3])} at {place}" for rank, (names, place) in enumerate(places) if names
    ]
    return _told(blind, places[0][1])


def sizes_of(directory: str | os.PathLike[str]) -> dict[str, int]:
    """The files in a directory and below it, with their sizes in bytes."""
    root = Path(directory)
    return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def _told(blind: list[str], first: str) -> str:
    return f"not all processes see what was written to {first}: {'; '.join(blind)}; {_REMEDY}" if blind else ""


def _place(directory: str | os.PathLike[str]) -> str:
    return f"{platform.node()}:{os.path.abspath(directory)}"


def _reads(file: Path) -> bool:
    return _found_in_time(lambda: read_regular(file).decode() == file.name)


def _has(file: Path, size: int) -> bool:
    return _found_in_time(lambda: file.stat().st_size == size)


def _found_in_time(look: Callable[[], bool]) -> bool:
    for wait_s in _WAITS_S:
        time.sleep(wait_s)
        try:
            if look():
                return True
        except OSError:
            continue
    return False
