"""All benchmarks, one after the other, or those that are named: `python -m benchmarks`, or `make bench`.

The results go to a file in benchmarks/results.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from types import ModuleType

import benchmarks
from benchmarks._harness import main
from benchmarks._results import FOLDER, Comparison

BY_THEMSELVES = ("_device", "ops.compiled")
"""Ends of the names of those that are run alone: kernels on a GPU by `benchmarks.device`, and hours of compiling."""


def _benchmarks() -> list[ModuleType]:
    """The modules of this folder that have a `run`, by their names."""
    names = [it.name for it in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.") if not it.ispkg]
    left_out = (*BY_THEMSELVES, "__main__", "benchmarks.check", "benchmarks.tables")
    chosen = [it for it in names if not it.endswith(left_out) and "._" not in it]
    return [it for name in chosen if hasattr(it := importlib.import_module(name), "run")]


BENCHMARKS = _benchmarks()


def _name(benchmark: ModuleType) -> str:
    return benchmark.__name__.removeprefix("benchmarks.")


NAMES = [_name(it) for it in BENCHMARKS]


def run(repeats: int, names: Sequence[str] = ()) -> dict[str, list[Comparison]]:
    """Run every benchmark, or those of these names, and say at the end which bars were reached."""
    results: dict[str, list[Comparison]] = {}
    for benchmark in BENCHMARKS:
        if names and _name(benchmark) not in names:
            continue
        print(f"\n{(benchmark.__doc__ or '').strip()}\n")
        results[_name(benchmark)] = benchmark.run(repeats)
    barred = [row for rows in results.values() for row in rows if row.bar is not None]
    missed = [row for row in barred if row.ratio < (row.bar or 0)]
    print(f"\n{len(barred) - len(missed)} of {len(barred)} bars reached")
    for row in missed:
        print(f"missed: {row}")
    return results


if __name__ == "__main__":
    main("All benchmarks", run, names=NAMES, results=FOLDER)
