"""`burnlike schema [TYPE]`: the JSON Schema of a config type, with which editors complete and check YAML."""

import argparse

import burnlike.config.registry as registry
from burnlike.config import Config

from ..options import add_shared, say, say_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "type", nargs="?", metavar="TYPE", help="a `type:` or the name of a config class (default: TrainConfig)"
    )
    parser.add_argument("--list", action="store_true", help="list the types instead, by role")
    add_shared(parser, "--import")


def run(args: argparse.Namespace) -> int:
    registry.import_modules(args.imports)
    if args.list:
        for role, tags in registry.types_by_role(Config).items():
            say(f"{role}: {', '.join(tags)}")
        return 0
    from burnlike.config.json_schema import json_schema
    from burnlike.train.job.configs import TrainConfig

    root = registry.named(Config, args.type) if args.type else TrainConfig
    say_json(json_schema(root), indent=None)
    return 0
