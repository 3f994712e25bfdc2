"""`python -m tests.vectors [--backend cpu|cuda] FILE...`: check burnlike against files of vectors.

The files are lists of records of operations, programs, layers and losses (see `modules`), or have sections of
optimizers (see `optim`).

Prints each failure and each skip, and last `N passed, N failed, N skipped`. The exit status is 0 if nothing failed, 1
if a case failed, 2 if a file can't be used.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from burnlike import Backend

from .backends import backends_for, plain_backend
from .cases import Outcome, is_program, name_of, run
from .files import FileError, read_either
from .modules import records as modules
from .optim import sections


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors", description="Check burnlike against vectors.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu", help="where to run (default: cpu)")
    chosen = parser.parse_args(arguments)
    try:
        records = [(path, read_either(path)) for path in chosen.files]
    except FileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    plain = plain_backend(chosen.backend)
    torch.manual_seed(0)
    counts: Counter[str] = Counter()
    for path, found in records:
        for name, where, outcome in outcomes(found, plain, chosen.backend):
            counts[outcome.verdict] += 1
            if outcome.verdict != "passed" or outcome.reason:
                print(f"{outcome.verdict.upper()} {path.name}: {name}{where}: {outcome.reason}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


def outcomes(
    found: list[Any] | dict[str, Any], plain: Backend | None, device: str
) -> Iterator[tuple[str, str, Outcome]]:
    """Run what a file holds: each name, where it ran, and what became of it.

    Args:
        found: the records of a file, or its sections.
        plain: the backend; None where there is no device for it.
        device: its name, `cpu` or `cuda`.
    """
    no_device = "", Outcome("skipped", "no CUDA device")
    if isinstance(found, dict):
        for case in sections.cases_of(found):
            ran = no_device if plain is None else ("", sections.run(case, plain.device))
            yield case.name, *ran
        return
    for index, record in enumerate(found):
        name = name_of(record, index)
        if modules.is_module(record):
            for where, outcome in modules.outcomes(record, device):
                yield name, where, outcome
            continue
        if plain is None:
            yield name, *no_device
            continue
        for backend in backends_for(is_program(record), plain):
            yield name, f" on {backend.name}", run(record, backend)


if __name__ == "__main__":
    sys.exit(main())
