"""`burnlike evaluate RUN`: measures the model of a run."""

import argparse
import math
from pathlib import Path

from burnlike.errors import ArgumentError

from ..options import CONFIG_FILES, add_run_options, add_shared, data_config, opened, say, say_json, warn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    text = "the part of the data: train, valid, test, ... or all (default: test where there is one, else valid)"
    parser.add_argument("--split", metavar="NAME", help=text)
    text = "other data: a file or directory, all of which is read as the run's data was; or a YAML file with a config"
    parser.add_argument("--data", metavar="PATH", help=text)
    add_shared(parser, "--json")


def run(args: argparse.Namespace) -> int:
    path: str | None = args.data
    if path is not None and not Path(path).exists():
        raise ArgumentError(f"--data: there is no file or directory {path}; check the path")
    data = data_config(path) if path is not None and Path(path).suffix in CONFIG_FILES else None
    loaded = opened(args)
    from burnlike.train.job.loaded_run import ALL, data_at, evaluate_run

    split = args.split
    if path is not None and data is None:
        data, split = data_at(loaded, path), split or ALL
    name = "" if path is None else Path(path).name
    given_options = {"data": None if data is None else data.to_dict(), "data_name": name}
    given_options["set"] = [str(override) for override in args.overrides]
    evaluation = evaluate_run(loaded, split, data, notes=given_options)
    if evaluation.problem:
        warn(f"burnlike: the values are not kept: {evaluation.problem}")
    if args.json:
        about = {"run": str(loaded.path), "step": loaded.step, "weights": loaded.weights}
        say_json({**about, **evaluation._asdict(), "file": None if evaluation.problem else str(evaluation.file)})
        return 0
    part = f"{evaluation.split} of {name}" if name else evaluation.split
    say(f"{loaded.path}: {loaded.weights} weights, step {loaded.step}, {evaluation.items:,} items of {part}")
    for reason in evaluation.left_out:
        say(f"left out: {reason}")
    for name, value in evaluation.values.items():
        say(f"{name:<16} {'-' if math.isnan(value) else f'{value:.4f}'}")
    if not evaluation.problem:
        say(f"kept in {evaluation.file}")
    return 0
