"""Options that several commands share. Imports no torch."""

import argparse

from ..config.root_keys import Input, parsed_input

__all__ = ["TRAIN_CONFIG", "Input", "add_import_option", "add_input_option", "add_set_option", "input_of"]

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


def add_input_option(parser: argparse.ArgumentParser) -> None:
    """`--input x=int64:8,128`, repeated, as `args.inputs`."""
    parser.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        type=input_of,
        metavar="[NAME=][DTYPE:]SIZES",
        help="an input of the model, such as 8,3,32,32 or tokens=int64:8,128; may be repeated",
    )


def input_of(text: str) -> Input:
    """The input that an option describes.

    Raises:
        ArgumentTypeError: it does not.
    """
    found = parsed_input(text)
    if isinstance(found, str):
        raise argparse.ArgumentTypeError(found)
    return found
