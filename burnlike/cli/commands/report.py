"""`burnlike report RUN...`: one HTML page about runs."""

import argparse
import re

from burnlike._outputs import Output
from burnlike.errors import BurnlikeError, RunDirError
from burnlike.train.runs.run_files import RunFiles, read_run
from burnlike.train.view.report.page import Work, count_of, peak_tflops_of, report_page

from ..options import add_force_option, place_of, say

_MARK = re.compile(
    rb'\A<!DOCTYPE html>\s*<html lang="en"><head>.{0,800}<meta name="generator" content="burnlike report"', re.DOTALL
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the directory of a run, or its name in runs/")
    text = "what a device computes in a second at most, for the share of it that was used (MFU); default: of known GPUs"
    parser.add_argument("--peak-tflops", type=float, metavar="X", help=text)
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page (default: report.html)")
    add_force_option(parser)


def run(args: argparse.Namespace) -> int:
    places = dict.fromkeys(map(place_of, args.runs))
    out = Output(args.out, "report", inputs=places, force=args.force, mark=_MARK)
    out.check_file()
    runs = [read_run(path) for path in places]
    page = report_page(runs, [_work(run, args.peak_tflops) for run in runs])
    try:
        out.write(page.encode())
    except OSError as error:
        raise RunDirError(f"{args.out}: can't be written: {error.strerror or error}") from error
    say(f"the report is in {args.out}")
    return 0


def _work(run: RunFiles, peak_tflops: float | None) -> Work | None:
    """The work of one process in a step of a run; None where its config does not tell it."""
    if not run.ranks or not run.config_text:
        return None
    from burnlike.train.job.forecast import flops_of_process
    from burnlike.train.job.run_config import run_config

    try:
        flops = flops_of_process(run_config(run.path), count_of(run))
    except BurnlikeError as error:  # of a class of one's own, which is not imported here, and so on
        return Work(None, None, " ".join(str(error).split()))
    return Work(flops, peak_tflops or peak_tflops_of(run))
