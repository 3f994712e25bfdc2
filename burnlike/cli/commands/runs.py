"""`burnlike runs [DIR]`: the runs of a directory as a table."""

import argparse
import math
from pathlib import Path
from typing import Any, NamedTuple

from burnlike._terminal import one_line, table
from burnlike.errors import ArgumentError, RunDirError, nearest
from burnlike.train.runs.run_files import RunFiles, config_differences, find_runs, read_run
from burnlike.train.view.formats import format_elapsed, format_value, is_quality, lower_is_better
from burnlike.train.view.summary import LearnerSummary, MetricSummary

from ..tables import say, say_json, shortened

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


def run(args: argparse.Namespace) -> int:
    if args.sort not in _SORTS:
        raise ArgumentError(f"--sort {args.sort}: expected one of {', '.join(_SORTS)}{nearest(args.sort, _SORTS)}")
    root = Path(args.directory)
    runs = [read_run(path) for path in find_runs(root)]
    if not runs:
        raise RunDirError(f"{root} has no runs; `burnlike train` writes them to runs/, or to --run-dir DIR")
    summaries = [LearnerSummary.of(it.lines) for it in runs]
    known = sorted({it.name for summary in summaries for it in summary.metrics if is_quality(it.name)})
    if known and args.metric not in known:
        hint = f"expected one of {', '.join(known)}{nearest(args.metric, known)}"
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
    for line in table([_heads(args.metric, rows), *(_cells(row, root) for row in rows)]):
        say(line)
    for row in rows:
        for problem in [*row.run.problems, *([row.run.reason] if row.run.state == "failed" else [])]:
            say(f"{one_line(_name(row.run, root))}: {one_line(problem)}")
    return 0


def _sort_key(row: Row, key: str) -> Any:
    """Good values come first; runs without one come last."""
    run, metric = row.run, row.metric
    sign = 1 if metric is not None and lower_is_better(metric.name) else -1
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


def _heads(metric: str, rows: list[Row]) -> list[str]:
    splits = {row.metric.split for row in rows if row.metric is not None}
    name = f"validation {metric}" if splits == {"valid"} else metric
    return ["run", "state", "steps", f"best {name} (epoch)", "last", "time", "config"]


def _cells(row: Row, root: Path) -> list[str]:
    run, metric = row.run, row.metric
    best = "-" if metric is None else f"{format_value(metric.best.value)} ({metric.best.epoch})"
    differs = ", ".join(f"{name.rpartition('.')[2]}={shortened(it)}" for name, it in row.differs.items())
    cells = [
        _name(run, root),
        run.state,
        f"{run.steps:,}",
        best,
        "-" if metric is None else format_value(metric.last),
        "-" if run.seconds is None else format_elapsed(run.seconds),
        differs if len(differs) <= _LONGEST else f"{differs[:_LONGEST]}...",
    ]
    return [one_line(cell) for cell in cells]


def _name(run: RunFiles, root: Path) -> str:
    return str(run.path.relative_to(root))


def _plain(row: Row) -> dict[str, Any]:
    run = row.run
    return {
        "name": run.name,
        "path": str(run.path),
        **{name: getattr(run, name) for name in ("state", "reason", "steps", "seconds")},
        "started": run.environment.get("started"),
        "metrics": [
            {name: getattr(it, name) for name in ("split", "name", "first", "last")}
            | {"best": it.best.value, "best_epoch": it.best.epoch}
            for it in row.summary.metrics
        ],
        "values": run.values,
        "config_differences": row.differs,
        "checkpoints": [it.step for it in run.checkpoints],
        "problems": run.problems,
    }
