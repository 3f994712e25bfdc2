"""The inputs that a model is tried with: `--input x=int64:8,128`. Imports no torch."""

import argparse

from burnlike.config.root_keys import Input, parsed_input

__all__ = ["Input", "add_input_option", "input_of"]


def add_input_option(parser: argparse.ArgumentParser) -> None:
    """`--input`, repeated, as `args.inputs`."""
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
