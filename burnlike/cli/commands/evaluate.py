"""`burnlike evaluate RUN`: measures the model of a run."""

import argparse

from ..options import add_run_options, add_shared, data_config, opened
from ..tables import say, say_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    text = "the part of the data: train, valid, test, ... or all (default: test where there is one, else valid)"
    parser.add_argument("--split", metavar="NAME", help=text)
    parser.add_argument(
        "--data", metavar="YAML", help="the config of other data, in a file of its own or under `data:`"
    )
    add_shared(parser, "--json")


def run(args: argparse.Namespace) -> int:
    data = None if args.data is None else data_config(args.data)
    loaded = opened(args)
    from burnlike.train.job.loaded_run import evaluate_run

    given_options = {"data": None if data is None else data.to_dict(), "set": [str(it) for it in args.overrides]}
    evaluation = evaluate_run(loaded, args.split, data, notes=given_options)
    if args.json:
        about = {"run": str(loaded.path), "step": loaded.step, "weights": loaded.weights}
        say_json({**about, **evaluation._asdict(), "file": str(evaluation.file)})
        return 0
    say(
        f"{loaded.path}: {loaded.weights} weights, step {loaded.step}, {evaluation.items:,} items of {evaluation.split}"
    )
    for reason in evaluation.left_out:
        say(f"left out: {reason}")
    for name, value in evaluation.values.items():
        say(f"{name:<16} {value:.4f}")
    say(f"kept in {evaluation.file}")
    return 0
