"""`burnlike forecast FILE|CONFIG`: the disk, host and device memory that a record or a model will take."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...config.shipped import config_file
from ...record.formats import DEFAULT_EXTENSION, EXTENSIONS, Format, format_of_path
from .. import record_options as options
from ..config_options import read_model
from ..tables import amount, printable, say, say_json

if TYPE_CHECKING:
    from torch import nn

    from ...config import OptimizerConfig
    from ...record import Record

_CONFIGS = (".yaml", ".yml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say how many bytes a record takes on disk, in the host's memory while it is saved and loaded, and on a GPU;"
        " from a file's header or a model's config alone."
    )
    text = "a record of any format; or a YAML config of a run or a model, or a shipped one"
    parser.add_argument("file", type=config_file, metavar="FILE|CONFIG", help=text)
    text = f"the format to be written: {', '.join(options.FORMATS)}; default: that of FILE"
    parser.add_argument("--format", metavar="NAME", help=text)
    text = "add gradients and optimizer states: those of the config's optimizer, else AdamW's"
    parser.add_argument("--optimizer", action="store_true", help=text)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_precision_options(parser)
    options.add_layout_options(parser)


def run(args: argparse.Namespace) -> int:
    chosen = None if args.format is None else format_of_path(options.extension_named(args.format))
    is_config = args.file.endswith(_CONFIGS)
    subject: Any = _of_config(args, chosen) if is_config else _of_file(args, chosen)
    from ...train.job.forecast import forecast

    found = {"source": args.file, **forecast(*subject, precision=options.precision_of(args), steps=args.optimizer)}
    say_json(found) if args.json else say("\n".join(_lines(found)))
    return 0


def _of_file(args: argparse.Namespace, chosen: Format | None) -> "tuple[Record, Format]":
    record = options.open_file(args.file, options.layout_of(args, options.model_of(args)))
    own = options.format_of_file(args.file)
    writable = own.extension in EXTENSIONS  # not so what torch.save wrote
    return record, chosen or (own if writable else format_of_path(DEFAULT_EXTENSION))


def _of_config(
    args: argparse.Namespace, chosen: Format | None
) -> "tuple[Record, Format, nn.Module, OptimizerConfig | None]":
    model = read_model(args.file, args.imports)
    from ...record import Record

    module = model.build()
    record = Record.of(module)
    if (layout := options.layout_of(args, options.model_of(args))) is not None:
        record = replace(record, layout=layout)
    return record, chosen or format_of_path(DEFAULT_EXTENSION), module, model.optimizer


def _lines(found: dict[str, Any]) -> list[str]:
    host, gpu = found["host_bytes"], found["gpu_bytes"]
    bound = "" if found["file_bytes_exact"] else "at most "
    rows = [
        ("tensors", f"{found['tensors']}, {amount(found['tensor_bytes'])} as they are"),
        ("disk", f"{bound}{amount(found['file_bytes'])} as {found['format']}"),
    ]
    if "optimizer_file_bytes" in found:
        rows.append(("disk", f"{amount(found['optimizer_file_bytes'])} for the optimizer's record"))
    rows += [
        ("host, save", f"{amount(host['save'])} for buffers"),
        ("host, save from GPU", f"{amount(host['save_from_gpu'])} for pinned buffers"),
        ("host, save_async", f"{amount(host['save_async'])}: the buffers and a copy in the types of the file"),
        ("host, load", f"{amount(host['load'])}: the tensors and buffers"),
    ]
    rows += [(f"GPU, {name}", amount(count)) for name, count in gpu.items()]
    width = max(len(name) for name, _ in rows)
    return [f"{printable(found['source'])}:", *(f"  {name:<{width}}  {text}" for name, text in rows)]
