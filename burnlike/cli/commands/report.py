"""`burnlike report RUN...`: one HTML page about runs."""

import argparse
from pathlib import Path

from burnlike._atomic import replace_file
from burnlike.errors import RunDirError
from burnlike.train.runs.run_files import read_run

from ..tables import say

_RUNS = Path("runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the directory of a run, or its name in runs/")
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page (default: report.html)")


def run(args: argparse.Namespace) -> int:
    from burnlike.train.view.report.page import report_page

    places = dict.fromkeys(_place(name) for name in args.runs)
    page = report_page([read_run(path) for path in places])
    try:
        replace_file(args.out, page.encode())
    except OSError as error:
        raise RunDirError(f"{args.out}: can't be written: {error.strerror or error}") from error
    say(f"the report is in {args.out}")
    return 0


def _place(name: str) -> Path:
    """The path, or that of the run of this name in `runs/`."""
    path = Path(name)
    return path if path.is_dir() or not (_RUNS / name).is_dir() else _RUNS / name
