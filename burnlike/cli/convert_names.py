"""Whose names and layouts the tensors of a converted record have: burnlike's, torch's, or another library's."""

import argparse
import os
from typing import TYPE_CHECKING

from ..errors import RecordError, nearest
from ..models.weights.table import weight_tables
from ..record.formats import DEFAULT_EXTENSION
from .record_options import format_of_file, model_of

if TYPE_CHECKING:
    from torch import nn

    from ..record import Record

_OF_TORCH = (".pt", DEFAULT_EXTENSION)
"""Extensions of the formats in which PyTorch programs save."""


def add_names_options(parser: argparse.ArgumentParser) -> None:
    """`--from` and `--to`."""
    known = ", ".join(_names())
    parser.add_argument(
        "--from",
        dest="source",
        metavar="NAMES",
        help=f"whose names and layouts the tensors of IN have: {known}; it needs --model, or of another library's a"
        " config.json beside IN. Default: burnlike's, or with --model told by names and shapes",
    )
    parser.add_argument(
        "--to", dest="target", metavar="NAMES", default="burnlike", help="whose OUT gets; default: burnlike's"
    )


def check_names(args: argparse.Namespace) -> None:
    """Refuse unknown names before anything is read.

    Raises:
        RecordError: there are no such names, or nothing says what layers there are.
    """
    for option, name in (("--from", args.source), ("--to", args.target)):
        if name is not None and name not in _names():
            known = ", ".join(_names())
            raise RecordError(f"{option} {name}: expected one of {known}{nearest(name, _names())}")
    if args.model is None and args.source == "torch":
        raise RecordError("--from torch needs --model CONFIG, which says what layers there are")
    if args.model is None and args.target != "burnlike" and args.source not in weight_tables():
        raise RecordError(f"--to {args.target} needs --model CONFIG, which says what layers there are")


def model_to_convert(args: argparse.Namespace) -> "nn.Module | None":
    """The module of `--model`, else for another library's weights that of the `config.json` beside them.

    Raises:
        ConfigError: the config is wrong, or there is none.
        RecordError: the `config.json` is of other weights.
    """
    if args.model is not None or args.source not in weight_tables():
        return model_of(args)
    from ..models.pretrained import pretrained_config, pretrained_table
    from ..train.job.device import build_on_meta

    format_of_file(args.input)  # a path that leads to no record is told as such
    directory = args.input if os.path.isdir(args.input) else os.path.dirname(args.input)
    if (found := pretrained_table(directory).name) != args.source:
        raise RecordError(f"{directory}: its config.json is of a model of {found}, got --from {args.source}")
    return build_on_meta(pretrained_config(directory))


def translated(args: argparse.Namespace, module: "nn.Module | None", record: "Record") -> "Record":
    """The record with the names and layouts that OUT gets.

    Raises:
        RecordError: it can't be told whose names the record has.
        RecordMismatchError: it is not of this model.
    """
    if module is None:
        return record
    source = args.source or _source_of(args, module, record)
    if source == args.target:
        return record
    from ..interop import record_from_torch, record_to_torch
    from ..models import record_from, record_to

    if source == "torch":
        record = record_from_torch(module, record)
    elif source != "burnlike":
        record = record_from(weight_tables()[source], module, record)
    if args.target == "torch":
        return record_to_torch(module, record)
    return record if args.target == "burnlike" else record_to(weight_tables()[args.target], module, record)


def _names() -> list[str]:
    return ["burnlike", "torch", *weight_tables()]


def _source_of(args: argparse.Namespace, module: "nn.Module", record: "Record") -> str:
    """Whose names the input's tensors have by their names and shapes: `burnlike` or `torch`."""
    if record.ids or format_of_file(args.input).extension not in _OF_TORCH:
        return "burnlike"
    from ..interop.torch_names import names_of

    found = names_of(module, record)
    if found is None:
        raise RecordError(
            f"{args.input}: its names and shapes are those of {type(module).__name__} in torch and in Burn, which lay"
            " some of them out in different ways; say by --from torch or --from burnlike whose they are"
        )
    return found
