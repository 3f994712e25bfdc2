"""The page of text to paste into an issue: what failed first, then what was not run, then the figures."""

from collections.abc import Iterator, Sequence
from typing import Any

from .environment import Facts
from .results import FAILED, PASSED, PartResult

MOST_FAILURES = 20
COPY = "copy of as many bytes"


def is_passed(results: Sequence[PartResult], names: Sequence[str]) -> bool:
    """True if all parts ran, and nothing failed or was left out."""
    return [it.name for it in results] == [*names] and all(it.is_whole for it in results)


def text(facts: Facts, results: Sequence[PartResult], commit: str, device: str, seconds: float) -> str:
    """The page."""
    passed = sum(it.status == PASSED for it in results)
    gpu = f"compute capability {facts.capability}" if facts.capability else "no GPU"
    lines = [
        f"burnlike gpu-check: {passed} of {len(results)} parts passed, in {seconds:.0f} s",
        f"{facts.machine or 'unknown machine'}, {gpu}",
        f"torch {facts.torch} for CUDA {facts.cuda}, Python {facts.python}",
        f"burnlike at {commit}{', a rehearsal on the CPU with tiny sizes' if device == 'cpu' else ''}",
        "",
    ]
    for title, part_lines in (("Failed", _failures(results)), ("Not run", _not_run(results))):
        found = [*part_lines]
        lines += [title, *(f"  {line}" for line in found or ["nothing"]), ""]
    lines += ["Parts", *(f"  {it.name:<10} {it.status:<8} {it.seconds:7.1f} s" for it in results), ""]
    lines += ["Figures", *(f"  {line}" for it in results for line in (*_notes(it), *_rows(it)))]
    return "\n".join(lines) + "\n"


def _failures(results: Sequence[PartResult]) -> Iterator[str]:
    for result in results:
        yield from (f"{result.name}: {line}" for line in result.failures[:MOST_FAILURES])
        if (more := result.failure_count - min(len(result.failures), MOST_FAILURES)) > 0:
            yield f"{result.name}: and {more} more"


def _not_run(results: Sequence[PartResult]) -> Iterator[str]:
    for result in results:
        if result.status == FAILED and result.reason:
            yield f"{result.name}: not all of it: {result.reason}"
        elif result.status not in (PASSED, FAILED):
            yield f"{result.name}: {result.status}: {result.reason}"
        if result.reason != "; ".join(result.skipped):
            yield from (f"{result.name}: {line}" for line in result.skipped)


def _notes(result: PartResult) -> Iterator[str]:
    yield from (f"{result.name}: {note}" for note in result.notes)


def _rows(result: PartResult) -> Iterator[str]:
    for benchmark, rows in result.rows.items():
        yield f"{benchmark}:"
        yield from (f"  {_row(benchmark, row)}" for row in rows)


def _row(benchmark: str, row: dict[str, Any]) -> str:
    note = f"  {row['note']}" if row["note"] else ""
    if row["theirs"] == COPY:
        return f"{row['name']}: {row['ratio']:.0%} of a copy's rate, {row['ours_ms']:.3f} ms{note}"
    unit = "us" if benchmark == "ops.calls" else "ms"
    times = f"{row['ours_ms']:.3f} {unit}, {row['theirs']} {row['theirs_ms']:.3f}"
    return f"{row['name']}: {times}, {row['ratio']:.2f}x{note}"
