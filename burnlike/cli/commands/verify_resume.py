"""`burnlike verify-resume CONFIG`: proves that a run which is stopped and resumed ends in the same bits."""

import argparse
import os
import tempfile
from itertools import islice
from pathlib import Path

import burnlike.config.registry as registry
from burnlike._env import number_of_ranks
from burnlike._outputs import Output
from burnlike.config.shipped import config_file
from burnlike.errors import ArgumentError
from burnlike.train.job.configs import TrainConfig

from ..options import add_shared, say

_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Train the job of CONFIG twice for some steps, with two short epochs: once in one go, and once stopped, killed"
        " and resumed in new processes. Then compare the weights, the optimizer's states, the random generators, the"
        " position in the data and the metrics bit by bit. The exit status is 0 if they are equal, and 1 if not."
    )
    parser.add_argument("file", type=config_file, metavar="CONFIG", help="a YAML file, or a shipped config")
    parser.add_argument("--steps", type=_steps, default=12, metavar="N", help="optimizer steps (default: 12)")
    parser.add_argument("--workers", type=int, metavar="N", help="resume with another number of worker processes")
    parser.add_argument("--keep", metavar="DIR", help="leave both runs in DIR, a new directory")
    add_shared(parser, "--set", "--import")


def run(args: argparse.Namespace) -> int:
    """Prove it; 0 if both runs are equal, 1 if they differ."""
    registry.import_modules(args.imports)
    config = TrainConfig.load(args.file, args.overrides)
    if number_of_ranks() > 1 or not config.distributed.is_single:
        raise ArgumentError(
            "verify-resume starts its own processes, one after the other: expected distributed.strategy none and no"
            f" launcher, got {config.distributed.name} in one of {number_of_ranks()} processes; leave out torchrun,"
            " and add --set distributed.strategy=none"
        )
    from burnlike.train.job.verify import Leg, differences, legs_of, run_legs, shortened

    config = shortened(config, args.steps)
    other = config
    if args.workers is not None:
        values = config.to_dict()
        values["training"]["num_workers"] = args.workers
        other = TrainConfig.from_dict(values, "--workers")
    if args.keep is not None:
        Output(args.keep, "verify-resume", "--keep", inputs=[args.file]).check_directory()
    with tempfile.TemporaryDirectory(prefix="burnlike-") as temporary:
        place = Path(args.keep or temporary)
        legs = legs_of(config)
        last = legs[-1].stop
        say(f"{last} steps in two epochs, in one go")
        run_legs(config, place / "whole", [Leg(last)], args.imports)
        *before, _ = legs
        events = [f"{'killed in' if leg.is_killed else 'stopped after'} step {leg.stop}" for leg in before]
        say(f"the same, {' and '.join(events)}, and resumed{'' if other is config else f', {args.workers} workers'}")
        # Another number of workers is that of the resumed legs: the run begins as the whole one does.
        run_legs(config, place / "resumed", before[:1], args.imports)
        run_legs(other, place / "resumed", legs[1:], args.imports)
        differing = differences(place / "whole", place / "resumed")
        shown = list(islice(differing, _SHOWN))
        rest = sum(1 for _ in differing)
    if not shown:
        say("equal: weights, optimizer, random generators, position in the data, metrics")
        return 0
    say("different:")
    for difference in shown:
        say(f"  {difference.where}: {difference.what}")
    if rest:
        say(f"  and {rest} more")
    say(
        "A part of the job depends on something that no checkpoint has: random numbers of a generator of its own, the"
        f" clock, the order of files, or the number of threads (of {os.cpu_count()} CPUs; set it by `threads:`)"
    )
    return 1


def _steps(text: str) -> int:
    number = int(text)
    if number < 4:
        raise argparse.ArgumentTypeError("expected at least 4 steps")
    return number
