"""The inputs that a model is tried with: `--input x=int64:8,128`. Imports no torch."""

import argparse
import re
from typing import NamedTuple

from burnlike._dtypes import DTYPES, other_name

_FORM = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?:(?P<dtype>\w+):)?(?P<shape>(?:\d{1,10}(?:,\d{1,10})*)?)")
_NAMES = [it.torch for it in DTYPES if it.torch]


class Input(NamedTuple):
    """A tensor that a model is called with.

    Attributes:
        shape: its sizes.
        dtype: torch's name of its element type.
        name: of the argument; empty for one that is given by its order.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    name: str = ""

    def __str__(self) -> str:
        name = f"{self.name}=" if self.name else ""
        return f"{name}{self.dtype}:{','.join(map(str, self.shape))}"


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
    found = _FORM.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected [NAME=][DTYPE:]SIZES, such as tokens=int64:8,128, got {text!r}")
    dtype = found["dtype"] or "float32"
    dtype = dtype if dtype in _NAMES else other_name(dtype) or ""
    if dtype not in _NAMES:
        raise argparse.ArgumentTypeError(f"{text!r}: unknown element type; there are {', '.join(_NAMES)}")
    sizes = tuple(int(size) for size in found["shape"].split(",") if size)
    return Input(sizes, dtype, found["name"] or "")
