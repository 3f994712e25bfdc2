"""`burnlike report RUN...`: one HTML page about runs."""

import argparse
from math import prod
from typing import TYPE_CHECKING

from burnlike._atomic import replace_file
from burnlike.errors import BurnlikeError, RunDirError
from burnlike.train.runs.run_dir import CONFIG_NAME
from burnlike.train.runs.run_files import read_run

from ..config_options import read_model
from ..run_options import place_of
from ..tables import say

if TYPE_CHECKING:
    from burnlike.train.runs.run_files import RunFiles
    from burnlike.train.view.report.processes import Work


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the directory of a run, or its name in runs/")
    text = "what a device computes in a second at most, for the share of it that was used (MFU); default: of known GPUs"
    parser.add_argument("--peak-tflops", type=float, metavar="X", help=text)
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page (default: report.html)")


def run(args: argparse.Namespace) -> int:
    from burnlike.train.view.report.page import report_page

    places = dict.fromkeys(map(place_of, args.runs))
    runs = [read_run(path) for path in places]
    page = report_page(runs, [_work(run, args.peak_tflops) for run in runs])
    try:
        replace_file(args.out, page.encode())
    except OSError as error:
        raise RunDirError(f"{args.out}: can't be written: {error.strerror or error}") from error
    say(f"the report is in {args.out}")
    return 0


def _work(run: "RunFiles", peak_tflops: float | None) -> "Work | None":
    """What a run with several processes computes for one token or item; None where its config does not say it."""
    if not run.ranks or not run.config_text:
        return None
    from burnlike.models.views.shapes import trace
    from burnlike.train.view.report.processes import Work, peak_of

    try:
        model = read_model(str(run.path / CONFIG_NAME), [])
        found = trace(model.build(), [*model.inputs])
    except BurnlikeError:  # of a class of one's own, which is not imported here
        return None
    if found.failed or not model.inputs or not model.inputs[0].shape:
        return None
    whole = 3 * sum(call.flops for call in found.calls if call.depth == 0)
    shape = model.inputs[0].shape
    return Work({"tokens": whole / prod(shape), "items": whole / shape[0]}, peak_tflops or peak_of(run))
