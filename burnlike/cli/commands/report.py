"""`burnlike report RUN...`: one HTML page about runs."""

import argparse

from burnlike._atomic import replace_file
from burnlike.errors import RunDirError
from burnlike.train.runs.run_files import read_run

from ..run_options import place_of
from ..tables import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the directory of a run, or its name in runs/")
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page (default: report.html)")


def run(args: argparse.Namespace) -> int:
    from burnlike.train.view.report.page import report_page

    places = dict.fromkeys(map(place_of, args.runs))
    page = report_page([read_run(path) for path in places])
    try:
        replace_file(args.out, page.encode())
    except OSError as error:
        raise RunDirError(f"{args.out}: can't be written: {error.strerror or error}") from error
    say(f"the report is in {args.out}")
    return 0
