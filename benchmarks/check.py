"""Which rows have become slower: `python -m benchmarks.check`, or `make bench-check`.

Runs the benchmarks, or those that are named, and compares each ratio with the last one that benchmarks/results has of
this machine. Benchmarks with a row below 0.95 of its last value run once more, since other programs may have disturbed
one run; a row that is below in both fails. `--measured FILE` compares a file of results without measuring anything.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import _results
from .__main__ import NAMES, run
from ._results import Comparison, Key, Run, by_key

LEAST = 0.95
"""Of its last value, a row that has not fallen."""


def fallen(found: dict[Key, Comparison], before: dict[Key, tuple[Comparison, Run]]) -> list[Key]:
    """The rows whose ratio is below `LEAST` of the last one; rows without one are not among them."""
    return [key for key, row in found.items() if key in before and row.ratio < LEAST * before[key][0].ratio]


def gone(found: dict[Key, Comparison], before: dict[Key, tuple[Comparison, Run]]) -> list[Key]:
    """Rows of the same benchmarks' last runs that are measured no more."""
    measured, newest = {benchmark for benchmark, _, _ in found}, dict[str, str]()
    for (name, *_), (_, earlier) in before.items():
        newest[name] = max(newest.get(name, ""), earlier.time)
    missing = [key for key in before if key[0] in measured and key not in found]
    return [key for key in missing if before[key][1].time == newest[key[0]]]


def report(found: dict[Key, Comparison], before: dict[Key, tuple[Comparison, Run]], failed: Sequence[Key]) -> str:
    """What `main` prints."""
    known = [key for key in found if key in before]
    lines = [f"{len(known)} rows have a last value, {len(found) - len(known)} are new, {len(failed)} have fallen"]
    for key in failed:
        row, (last, earlier) = found[key], before[key]
        share = row.ratio / last.ratio
        lines.append(
            f"fallen: {' / '.join(key)}: {row.ratio:.2f}x, {share:.2f} of {last.ratio:.2f}x at {earlier.commit[:8]}"
            f" ({row.ours_ms:.3f} ms, then {last.ours_ms:.3f})"
        )
    lines += [f"no longer measured: {' / '.join(key)}" for key in gone(found, before)]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Compare; 1 if a row has fallen."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks, of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--repeats", type=int, default=50, help="calls of each side (default 50)")
    parser.add_argument("--results", type=Path, default=_results.FOLDER, help="the folder with earlier results")
    parser.add_argument("--measured", type=Path, help="compare this file's results, and measure nothing")
    given = parser.parse_args(arguments)
    if unknown := sorted({*given.names} - {*NAMES}):
        parser.error(f"unknown: {', '.join(unknown)}")
    runs = _results.read_all(given.results)
    if given.measured:
        measured = _results.read(given.measured)
        earlier = [it for it in runs if it.time < measured.time]
        before, found = _results.last_values(earlier, measured.machine), measured.by_key
        failed = fallen(found, before)
    else:
        before = _results.last_values(runs, _results.machine())
        found = by_key(run(given.repeats, given.names))
        if failed := fallen(found, before):
            print("\nOnce more, what has fallen:")
            again = by_key(run(given.repeats, sorted({name for name, _, _ in failed})))
            failed = [key for key in fallen(again, before) if key in failed]
            found |= {key: again[key] for key in failed}
    print(f"\n{report(found, before, failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
