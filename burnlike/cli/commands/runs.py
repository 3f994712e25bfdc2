"""`burnlike runs [DIR]`: the runs of a directory as a table; two beside one another; and removing some."""

import argparse
import math
import os
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from burnlike._atomic import remove_directory
from burnlike._terminal import one_line, table
from burnlike.errors import ArgumentError, RunDirError, nearest
from burnlike.train.runs.run_dir import RunDir
from burnlike.train.runs.run_files import RunFiles, config_differences, evaluated_on, find_runs, read_run
from burnlike.train.view.formats import (
    LearnerSummary,
    MetricSummary,
    format_bytes,
    format_elapsed,
    format_value,
    is_quality,
)

from ..options import RUNS, place_of, say, say_json, shortened

_SORTS = ("name", "state", "steps", "best", "last", "time", "started")
_LONGEST = 60
"""Characters of what differs."""


class Row(NamedTuple):
    """A run with the metric that is shown of it: that of the validation, else of the training."""

    run: RunFiles
    summary: LearnerSummary
    metric: MetricSummary | None
    differs: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", nargs="?", default="runs", metavar="DIR", help="where the runs are (default: runs)"
    )
    parser.add_argument("--metric", default="loss", metavar="NAME", help="the metric to show (default: loss)")
    parser.add_argument("--sort", default="name", metavar="KEY", help=f"one of {', '.join(_SORTS)} (default: name)")
    parser.add_argument("--json", action="store_true", help="print a JSON list, with all metrics of each run")
    text = "show runs beside one another: their metrics, and what differs in their configs"
    parser.add_argument("--compare", nargs="+", metavar="RUN", help=text)
    text = "get the last checkpoint and the result of a run from its mirror, such as s3://bucket/path/RUN, to DIR"
    parser.add_argument("--fetch", metavar="URL", help=text)
    parser.add_argument("--remove", nargs="+", metavar="RUN", help="remove the directories of runs, after a question")
    parser.add_argument("--yes", action="store_true", help="with --remove: don't ask")


def run(args: argparse.Namespace) -> int:
    if args.fetch is not None:
        from burnlike.train.checkpoint.mirror import fetch_run

        run, came = fetch_run(args.fetch, Path(args.directory))
        say(f"{run} has {' and '.join(came) or 'nothing new'} of {args.fetch}")
        return 0
    if args.remove:
        return _remove(_places(args, args.remove), is_sure=args.yes)
    if args.compare:
        for line in _comparison(_places(args, args.compare)):
            say(line)
        return 0
    if args.sort not in _SORTS:
        raise ArgumentError(f"--sort {args.sort}: expected one of {', '.join(_SORTS)}{nearest(args.sort, _SORTS)}")
    root = Path(args.directory)
    # runs/ need not be there yet; another folder that is not there is an error of `find_runs`.
    runs = [read_run(path) for path in find_runs(root)] if root.is_dir() or root != RUNS else []
    if not runs:
        raise RunDirError(
            f"there are no runs in {root}{os.sep} yet; `burnlike train CONFIG` writes one to runs/, such as `burnlike"
            " train digits`. `burnlike runs DIR` lists those of another folder"
        )
    summaries = [LearnerSummary.of(it.lines, it.directions) for it in runs]
    qualities = sorted({metric.name for summary in summaries for metric in summary.metrics if is_quality(metric.name)})
    if qualities and args.metric not in qualities:
        hint = f"expected one of {', '.join(qualities)}{nearest(args.metric, qualities)}"
        raise ArgumentError(f"--metric {args.metric}: no run has it; {hint}")
    differences = config_differences(runs)
    rows = [
        Row(
            it,
            summary,
            summary.find("valid", args.metric) or summary.find("train", args.metric),
            {name: it.config[name] for name in differences if name in it.config},
        )
        for it, summary in zip(runs, summaries, strict=True)
    ]
    rows.sort(key=lambda row: _sort_key(row, args.sort))
    if args.json:
        say_json([_plain(row) for row in rows])
        return 0
    has_evaluations = any(it.evaluations for it in runs)
    cells = [_cells(row, root, args.metric, has_evaluations) for row in rows]
    splits = {row.metric.split for row in rows if row.metric is not None}
    name = f"validation {args.metric}" if splits == {"valid"} else args.metric
    evaluated = ["evaluated"] if has_evaluations else []
    heads = ["run", "state", "steps", f"best {name} (epoch)", "last", "time", *evaluated, "config"]
    for line in table([heads, *cells]):
        say(line)
    for row in rows:
        for problem in [*row.run.problems, *([row.run.reason] if row.run.state == "failed" else [])]:
            say(f"{one_line(str(row.run.path.relative_to(root)))}: {one_line(problem)}")
    return 0


def _places(args: argparse.Namespace, names: list[str]) -> list[Path]:
    return [*dict.fromkeys(place_of(name, Path(args.directory)) for name in names)]


def _remove(places: list[Path], *, is_sure: bool) -> int:
    """Remove runs, none of which is worked on; 1 if the user does not want it."""
    # All are locked before the first is removed: one that is being trained is told while nothing is gone yet.
    with ExitStack() as stack:
        locked = [stack.enter_context(closing(RunDir.open(place))) for place in places]
        sizes = [sum(path.lstat().st_size for path in run.path.rglob("*") if not path.is_dir()) for run in locked]
        for run, size in zip(locked, sizes, strict=True):
            say(f"{run.path}  {format_bytes(size)}")
        if not is_sure:
            if not sys.stdin.isatty():
                raise ArgumentError("--remove: expected --yes where nobody can be asked")
            question = f"remove {len(locked)} run{'s' * (len(locked) != 1)}, with all checkpoints? [y/N] "
            if input(question).lower() != "y":
                return 1
        for run in locked:
            remove_directory(run.path)
    say(f"removed {len(places)} run{'s' * (len(places) != 1)}")
    return 0


def _comparison(places: list[Path]) -> list[str]:
    runs = [read_run(place) for place in places]
    names = [it.name if len({run.name for run in runs}) == len(runs) else str(it.path) for it in runs]
    summaries = [LearnerSummary.of(it.lines, it.directions) for it in runs]
    rows = [["state", *(it.state for it in runs)], ["steps", *(f"{it.steps:,}" for it in runs)]]
    rows.append(["time", *("-" if it.seconds is None else format_elapsed(it.seconds) for it in runs)])
    metrics = dict.fromkeys((metric.split, metric.name) for summary in summaries for metric in summary.metrics)
    for split, name in (metric for metric in metrics if is_quality(metric[1])):
        found_metrics = [summary.find(split, name) for summary in summaries]
        shown = ["-" if metric is None else str(metric.best) for metric in found_metrics]
        rows.append([f"best {split} {name} (epoch)", *shown])
    ends = dict.fromkeys((split, name) for run in runs for split, values in run.values.items() for name in values)
    for split, name in ends:
        rows.append([f"{split} {name} at the end", *(format_value(it.values.get(split, {}).get(name)) for it in runs)])
    differs = config_differences(runs)
    rows += [[name, *("-" if it is None else shortened(it) for it in values)] for name, values in differs.items()]
    return table([["", *map(one_line, names)], *([one_line(cell) for cell in row] for row in rows)])


def _sort_key(row: Row, key: str) -> Any:
    """Good values come first; runs without one come last."""
    run, metric = row.run, row.metric
    sign = 1 if metric is not None and metric.low_is_good else -1
    match key:
        case "best" | "last":
            value = None if metric is None else metric.best.value if key == "best" else metric.last
            return math.inf if value is None else sign * value
        case "steps":
            return run.steps
        case "time":
            return math.inf if run.seconds is None else run.seconds
        case "started":
            return str(run.environment.get("started", ""))
        case "state":
            return run.state, str(run.path)
    return str(run.path)


def _cells(row: Row, root: Path, metric_name: str, has_evaluations: bool) -> list[str]:
    run, metric = row.run, row.metric
    differs = ", ".join(f"{name.rpartition('.')[2]}={shortened(differ)}" for name, differ in row.differs.items())
    evaluated = "-"  # the last evaluation, by the metric that is shown, or the loss
    if run.evaluations:
        last = run.evaluations[-1]
        shown = metric_name if metric_name in last["values"] else "loss"
        place = f"step {last.get('step')}{evaluated_on(last, ', ')}"
        evaluated = f"{last['split']} {shown} {format_value(last['values'].get(shown))} ({place})"
    cells = [
        str(run.path.relative_to(root)),
        run.state,
        f"{run.steps:,}",
        "-" if metric is None else str(metric.best),
        "-" if metric is None else format_value(metric.last),
        "-" if run.seconds is None else format_elapsed(run.seconds),
        *([evaluated] if has_evaluations else []),
        differs if len(differs) <= _LONGEST else f"{differs[:_LONGEST]}...",
    ]
    return [one_line(cell) for cell in cells]


def _plain(row: Row) -> dict[str, Any]:
    run = row.run
    return {
        "name": run.name,
        "path": str(run.path),
        **{name: getattr(run, name) for name in ("state", "reason", "steps", "seconds")},
        "started": run.environment.get("started"),
        "metrics": [
            {name: getattr(metric, name) for name in ("split", "name", "first", "last")}
            | {"best": metric.best.value, "best_epoch": metric.best.epoch}
            for metric in row.summary.metrics
        ],
        "values": run.values,
        "evaluations": run.evaluations,
        "config_differences": row.differs,
        "checkpoints": [checkpoint.step for checkpoint in run.checkpoints],
        "problems": run.problems,
    }
