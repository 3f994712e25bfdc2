"""Options of the commands about records: the types to store, and the layout of a file without names."""

import argparse
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from burnlike._dtypes import convertible
from burnlike.config.document import parse_plain, read_text
from burnlike.config.shipped import config_file
from burnlike.errors import ConfigIOError, RecordError, RecordIOError, nearest
from burnlike.record.bytes.source import FileSource
from burnlike.record.files.reading import INDEX_SUFFIX, find_record
from burnlike.record.formats import DEFAULT_EXTENSION, EXTENSIONS, Format, detect, directory_reader, format_of_path

from .options import add_repeated, add_shared, read_model

if TYPE_CHECKING:
    from torch import nn

    from burnlike.record import Precision, Record

_FLOATS, _INTS = (
    {it.short: it.torch for it in convertible(kind)} | {it.torch: it.torch for it in convertible(kind)}
    for kind in ("float", "int")
)
"""What `--precision` and `--int` take -> torch's name."""
_FLOATS |= {"double": "float64", "full": "float32", "half": "float16"}

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_BINARY_UNITS = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}


FORMATS = tuple(extension.removeprefix(".") for extension in EXTENSIONS)
"""What `--format` takes: extensions without their dot."""


def extension_named(name: str) -> str:
    wanted = name.removeprefix(".").lower()
    if wanted not in FORMATS:
        raise RecordError(f"--format {name}: expected one of {', '.join(FORMATS)}{nearest(wanted, FORMATS)}")
    return f".{wanted}"


def format_of_file(path: str) -> Format:
    if directory_reader(path) is not None:
        return format_of_path(DEFAULT_EXTENSION)
    record_path = find_record(path)
    return format_of_path(DEFAULT_EXTENSION) if record_path.endswith(INDEX_SUFFIX) else detect(FileSource(record_path))


def open_file(path: str, layout: Any, top_level_key: str | None = None) -> "Record":
    if layout is None and not format_of_file(path).has_names:
        raise RecordError(f"{path}: bincode carries no names; give --layout FILE, or --model CONFIG.yaml of its model")
    from burnlike.record import open_record

    return open_record(path, layout, top_level_key)


def add_precision_options(parser: argparse.ArgumentParser) -> None:
    """`--precision`, `--int`, `--keep` and `--allow-overflow`; hand the arguments to `precision_of`."""
    integers = [it.short for it in convertible("int")]
    text = "store floats as f32 (full), f16 (half), bf16, f64 (double), f8_e4m3 or f8_e5m2; default: as they are"
    parser.add_argument("--precision", metavar="TYPE", help=text)
    text = f"store integers as {', '.join(integers)}, if every value fits; default: as they are"
    parser.add_argument("--int", metavar="TYPE", help=text)
    text = "leave tensors as they are whose name this regular expression finds; may be repeated"
    add_repeated(parser, "--keep", "keep", "REGEX", text)
    text = "let floats that are too large for the type become inf (or nan), in place of an error"
    parser.add_argument("--allow-overflow", action="store_true", help=text)


def precision_of(args: argparse.Namespace) -> "Precision | None":
    """The Precision that the options ask for, None for none. Imports torch only if there is one."""
    names = _known("--precision", args.precision, _FLOATS), _known("--int", args.int, _INTS)
    if names == (None, None):
        if args.keep or args.allow_overflow:
            option = "--keep" if args.keep else "--allow-overflow"
            raise RecordError(f"{option} says how --precision or --int are meant; give one of those, too")
        return None
    import torch

    from burnlike.record import Precision

    float_type, int_type = (None if name is None else getattr(torch, name) for name in names)
    return Precision(float_type, int_type, keep=args.keep, allow_overflow=args.allow_overflow)


def _known(option: str, text: str | None, types: dict[str, str]) -> str | None:
    if text is None:
        return None
    if text.lower() not in types:
        raise RecordError(f"{option} {text}: expected one of {', '.join(types)}{nearest(text.lower(), list(types))}")
    return types[text.lower()]


def add_layout_options(parser: argparse.ArgumentParser) -> None:
    """`--layout`, `--model` and `--import`; hand the arguments to `layout_of`. And `--limits`, which `main` sees to."""
    group = parser.add_mutually_exclusive_group()
    text = "JSON or YAML that says how the record is arranged, for .bin, which carries no names"
    group.add_argument("--layout", metavar="FILE", help=text)
    text = "a YAML config of the model that the record is of, or a shipped one, in place of --layout"
    group.add_argument("--model", type=config_file, metavar="CONFIG", help=text)
    add_shared(parser, "--import")
    parser.add_argument(
        "--limits",
        type=_factor,
        metavar="FACTOR",
        help="open files that take up to FACTOR times the time and memory that is usual for their size; only files that"
        " you trust",
    )


def _factor(text: str) -> float:
    factor = float(text)
    if not 0 < factor < float("inf"):
        raise ValueError(text)
    return factor


def model_of(args: argparse.Namespace) -> "nn.Module | None":
    """The module that `--model` names, without values; None without the option. Imports torch only with it."""
    return None if args.model is None else read_model(args.model, args.imports).build()


def layout_of(args: argparse.Namespace, model: "nn.Module | None") -> Any:
    """The layout that `--layout` names, else that of the model; None for none."""
    if args.layout is None:
        if model is None:
            return None
        from burnlike.record.layout import LayoutOf
        from burnlike.record.state_dict.module_layout import layout_of

        return LayoutOf(partial(layout_of, model))
    from burnlike.record.layout import check_layout

    path: str = args.layout
    try:
        text = read_text(path)
        layout = json.loads(text) if path.endswith(".json") else parse_plain(text, path)
    except ConfigIOError as error:
        raise RecordIOError(f"the layout can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: expected a layout as JSON or YAML: {' '.join(str(error).split())}") from error
    try:
        check_layout(layout)
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
    return layout


def byte_size(option: str, text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", text.strip().lower())
    count = int(float(match[1]) * (_UNITS | _BINARY_UNITS)[match[2] or ""]) if match else 0
    if count < 1:
        raise RecordError(f"{option} {text}: expected a size such as 2GB, 500MB or 1GiB")
    return count
