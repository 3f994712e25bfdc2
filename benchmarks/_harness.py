"""Two-sided measuring: both sides in one process, on the same inputs, interleaved, medians of the repeats.

The sides alternate call by call, and which goes first changes too: both get the same share of whatever else the machine
does, and neither finds its data in the caches. On a CPU each side then also meets the memory that the other has left
behind: fresh pages where the C library gave memory back to the system, warm ones where it did not.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import _results
from ._results import Comparison


def time_of(call: Callable[[], object]) -> float:
    """Seconds of one call, with the work it started on a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def compare(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    theirs_name: str,
    bar: float | None = None,
    repeats: int = 50,
    note: str = "",
    before_ours: Callable[[], object] = lambda: None,
    before_theirs: Callable[[], object] = lambda: None,
    measure: Callable[[Callable[[], Any]], float] = time_of,
) -> Comparison:
    """Measure both sides, print the result and return it.

    Args:
        name: what is measured.
        ours, theirs: one call of each side.
        theirs_name: what we compare with.
        bar: the ratio that we want to reach.
        repeats: calls of each side, after 3 that are not counted.
        note: printed with the result.
        before_ours, before_theirs: make ready for one call, outside of the timing.
        measure: gives the seconds of a call; by default by the clock around it.
    """
    for _ in range(3):
        before_ours()
        ours()
        before_theirs()
        theirs()
    times: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(repeats):
        for is_ours in (True, False) if repeat % 2 else (False, True):
            (before_ours if is_ours else before_theirs)()
            times[is_ours].append(measure(ours if is_ours else theirs))
    ours_s, theirs_s = statistics.median(times[True]), statistics.median(times[False])
    result = Comparison(
        *(name, ours_s * 1e3, theirs_s * 1e3, theirs_name, theirs_s / ours_s, bar, repeats),
        *(torch.get_num_threads(), note),
    )
    print(result, flush=True)
    return result


def main(
    description: str,
    run: Callable[..., Sequence[Comparison] | Mapping[str, Sequence[Comparison]]],
    *,
    names: Sequence[str] = (),
    switches: Mapping[str, str] | None = None,
    results: Path | None = None,
) -> None:
    """The command line of a benchmark: threads, repeats, where the results go.

    Args:
        description: what is measured and how.
        run: takes the number of repeats and returns what was measured, or this for each benchmark; with `names` also a
            list of those chosen.
        names: of what the command line can choose.
        switches: more that can be asked for, with what it means: arguments of `run`, which are True where it is.
        results: the folder of results if the command line names none; None to write none.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, help="threads that torch uses (default: as it chooses)")
    parser.add_argument("--results", type=Path, default=results, help="also write a file to this folder")
    parser.add_argument("--repeats", type=int, default=50, help="calls of each side (default 50)")
    for switch, meaning in (switches or {}).items():
        parser.add_argument(f"--{switch}", action="store_true", help=meaning)
    if names:
        parser.add_argument("names", nargs="*", help="measure these only", metavar="NAME")
    arguments = parser.parse_args()
    if unknown := sorted(set(getattr(arguments, "names", ())) - set(names)):
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(names)}")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    print(
        f"{description}\n{_results.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads, medians of"
        f" {arguments.repeats}"
    )
    chosen = {switch: getattr(arguments, switch) for switch in switches or {}}
    found = run(arguments.repeats, *([arguments.names] if names else []), **chosen)
    if arguments.results:
        rows = found if isinstance(found, Mapping) else {_own_name(): found}
        print(f"written to {_results.write(arguments.results, rows)}")


def _own_name() -> str:
    """Of the benchmark that this process runs, as `python -m benchmarks` names it."""
    spec = sys.modules["__main__"].__spec__
    return "unknown" if spec is None else spec.name.removeprefix("benchmarks.")
