"""`burnlike data CONFIG`: what a training will read: numbers, lengths, classes, and the first examples."""

import argparse
import re
import sys

import burnlike.config.registry as registry
from burnlike._terminal import harmless
from burnlike.config.shipped import config_file
from burnlike.errors import ArgumentError
from burnlike.train.job.run_config import load_config

from ..options import add_shared, expect_config, say

_GREY, _PLAIN = "\x1b[90m", "\x1b[0m"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a YAML file of a training, or a shipped config"
    parser.add_argument("file", type=config_file, metavar="CONFIG", help=text)
    parser.add_argument("--first", type=int, default=5, metavar="N", help="how many examples to show (default: 5)")
    add_shared(parser, "--set", "--import")


def run(args: argparse.Namespace) -> int:
    if args.first < 0:
        raise ArgumentError(f"--first: expected 0 or more, got {args.first}")
    registry.import_modules(args.imports)
    config = load_config(expect_config(args.file), args.overrides)
    from burnlike.data import transformed
    from burnlike.data.sources.splits import MASKED, UNMASKED, described, shown
    from burnlike.train.job.starting import training_data

    data = training_data(config).init()
    describe, examples = getattr(data, "describe", None), getattr(data, "examples", None)
    for line in describe() if describe else described(data):
        say(line)
    if config.transforms:
        changed = transformed(data, config.transforms)
        say(f"transforms: {len(changed.train):,} items to train on, {len(changed.valid):,} to validate on")
    some = range(min(args.first, len(data.train)))
    for number, text in enumerate(examples(args.first) if examples else (shown(data.train[it]) for it in some), 1):
        marks = (_GREY, _PLAIN) if sys.stdout.isatty() else ("[[", "]]")
        # Marks are put in after the text was made safe for a terminal, which would drop them.
        pieces = re.split(f"([{MASKED}{UNMASKED}])", text)
        shown_marks = {MASKED: marks[0], UNMASKED: marks[1]}
        print(f"\nexample {number}")
        print("".join(shown_marks.get(piece) or harmless(piece) for piece in pieces))
    return 0
