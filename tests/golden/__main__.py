"""`python -m tests.golden DIR...`: check burnlike against folders of files that Burn wrote.

Every file is read, compared with its values and written again; modules, optimizers and schedulers are filled from
them, and what they compute is compared. Prints each failure, and last `N passed, N failed, 0 skipped`.
The exit status is 0 if nothing failed, 1 if a case failed, 2 if a folder can't be used.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from .cases import check_golden
from .folder import FolderError, read_folder, unlisted
from .outcomes import Outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the folders that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description="Check burnlike against Burn's files.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    chosen = parser.parse_args(arguments)
    try:
        found = [read_folder(folder) for folder in chosen.folders]
    except FolderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    outcomes = Outcomes()
    for goldens in found:
        check_folder(goldens, outcomes)
    print(outcomes.summary())
    return 1 if outcomes.counts["failed"] else 0


def check_folder(goldens: list, outcomes: Outcomes) -> None:
    """Check one folder."""
    torch.manual_seed(0)
    for golden in goldens:
        check_golden(golden, outcomes)
    for name in unlisted(goldens):
        outcomes.fail(f"{goldens[0].folder.name}/{name}", "no values file lists it")


if __name__ == "__main__":
    sys.exit(main())
