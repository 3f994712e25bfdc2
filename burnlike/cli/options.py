"""Options that several commands share."""

import argparse

TRAIN_CONFIG = "burnlike.train.job.configs:TrainConfig"
"""The class of a shipped YAML file's root."""


def add_import_option(parser: argparse.ArgumentParser) -> None:
    """`--import MODULE`, repeated, as `args.imports`; hand it to `burnlike.config.registry.import_modules`."""
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="import a module of your own first, so that `type:` can name its classes; may be repeated",
    )


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """`--set KEY=VALUE`, repeated, as `args.overrides`; hand it to `Config.load`."""
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE|~KEY",
        help="set a value of the config, such as training.epochs=3, or delete a key, '~training.ema'; may be repeated",
    )
