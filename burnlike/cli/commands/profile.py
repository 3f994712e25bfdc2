"""`burnlike profile CONFIG`: where the time and the memory of a training's steps go."""

import argparse
from pathlib import Path

import burnlike.config.registry as registry
from burnlike._env import quiet_profiler, shorten_spinning
from burnlike._memory import keep_freed_memory
from burnlike._outputs import Output
from burnlike.config.hiding import values_hidden
from burnlike.config.shipped import config_file, shipped_jobs
from burnlike.errors import ArgumentError
from burnlike.train.job.run_config import load_config

from ..options import add_force_option, add_shared, overrides_of, paths_in, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = f"a YAML file, or a shipped config: {', '.join(shipped_jobs())}"
    parser.add_argument("file", type=config_file, metavar="CONFIG", help=text)
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="steps to measure (default: 5)")
    text = "write trace.json, for chrome://tracing or ui.perfetto.dev, and on CUDA memory.pickle, to this directory"
    parser.add_argument("--out", type=Path, metavar="DIR", help=text)
    add_force_option(parser)
    add_shared(parser, "--device", "--set", "--import")


def run(args: argparse.Namespace) -> int:
    if args.steps < 1:
        raise ArgumentError(f"--steps: expected at least 1, got {args.steps}")
    # What `burnlike train` sets, whose steps are measured here; before torch is loaded.
    shorten_spinning()
    keep_freed_memory()
    quiet_profiler()
    registry.import_modules(args.imports)
    config = load_config(args.file, overrides_of(args))
    from burnlike.train.job.profiling import SNAPSHOT, TRACE, profile_lines, profile_steps

    if args.out is not None:
        for name in (TRACE, SNAPSHOT):
            read = [args.file, *paths_in(config.to_dict())]
            Output(args.out / name, "profile", inputs=read, force=args.force).check_file()

    with values_hidden(config):
        profile = profile_steps(config, args.steps, args.out)
    for line in profile_lines(profile):
        say(line)
    return 0
