"""`burnlike forecast FILE|CONFIG`: the disk, host and device memory that a record or a model will take."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...config.shipped import config_file
from ...record.formats import DEFAULT_EXTENSION, EXTENSIONS, Format, format_of_path
from ..models import Model, first_step, read_model
from ..record_options import (
    FORMATS,
    add_layout_options,
    add_precision_options,
    extension_named,
    format_of_file,
    layout_of,
    model_of,
    open_file,
    precision_of,
)
from ..tables import amount, printable, say, say_json

if TYPE_CHECKING:
    from torch import nn

    from ...record import Record

_CONFIGS = (".yaml", ".yml")


class _Subject(NamedTuple):
    """The subject of a forecast: a record, its module if there is one, and its format."""

    record: "Record"
    file_format: Format
    model: Model | None = None
    module: "nn.Module | None" = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = (
        "Say how many bytes a record takes on disk, in the host's memory while it is saved and loaded, and on a GPU;"
        " from a file's header or a model's config alone."
    )
    parser.add_argument(
        "file",
        type=config_file,
        metavar="FILE|CONFIG",
        help="a record of any format; or a YAML config of a run or a model, or a shipped one",
    )
    parser.add_argument(
        "--format", metavar="NAME", help=f"the format to be written: {', '.join(FORMATS)}; default: that of FILE"
    )
    parser.add_argument(
        "--optimizer",
        action="store_true",
        help="add gradients and optimizer states: those of the config's optimizer, else AdamW's",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_precision_options(parser)
    add_layout_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the forecast.

    Returns:
        0.

    Raises:
        RecordIOError, RecordFormatError: the file can't be read.
        ConfigError: the config is wrong.
        RecordError: an option is wrong, or the format has no place for something.
    """
    chosen = None if args.format is None else format_of_path(extension_named(args.format))
    is_config = args.file.endswith(_CONFIGS)
    subject = _of_config(args, chosen) if is_config else _of_file(args, chosen)
    found = _forecast(args, subject)
    say_json(found) if args.json else say("\n".join(_lines(found)))
    return 0


def _of_file(args: argparse.Namespace, chosen: Format | None) -> _Subject:
    record = open_file(args.file, layout_of(args, model_of(args)))
    own = format_of_file(args.file)
    writable = own.extension in EXTENSIONS  # not so what torch.save wrote
    return _Subject(record, chosen or (own if writable else format_of_path(DEFAULT_EXTENSION)))


def _of_config(args: argparse.Namespace, chosen: Format | None) -> _Subject:
    model = read_model(args.file, args.imports)
    from ...record import Record

    module = model.build()
    record = Record.of(module)
    layout = layout_of(args, model_of(args))
    if layout is not None:
        record = replace(record, layout=layout)
    return _Subject(record, chosen or format_of_path(DEFAULT_EXTENSION), model, module)


def _forecast(args: argparse.Namespace, subject: _Subject) -> dict[str, Any]:
    from ...record.precision import Precision
    from ...record.recorder import outline_of
    from ...record.tools.forecast import cuda_memory, device_saving_memory, file_size, loading_memory, saving_memory

    as_is = outline_of(subject.record, Precision(None), with_values=False)
    stored = outline_of(subject.record, precision_of(args) or Precision(None), with_values=False)
    size = file_size(subject.file_format, stored)
    sizes = [entry.nbytes for entry in as_is.entries.values()]
    buffers = saving_memory(size)
    found: dict[str, Any] = {
        "source": args.file,
        "format": subject.file_format.extension.removeprefix("."),
        "tensors": len(sizes),
        "tensor_bytes": sum(sizes),
        "file_bytes": size.bytes,
        "file_bytes_exact": size.exact,
        "host_bytes": {
            "save": buffers,
            "save_from_gpu": device_saving_memory(size),
            "save_async": buffers + sum(entry.nbytes for entry in stored.entries.values()),
            "load": sum(sizes) + loading_memory(sum(sizes)),
        },
        "gpu_bytes": {"tensors": cuda_memory(sizes), "save": device_saving_memory(size)},
    }
    if subject.module is not None:
        found["gpu_bytes"]["buffers"] = cuda_memory(_unsaved_buffers(subject.module))
    if args.optimizer:
        gradients, states = first_step(subject.record, subject.model, subject.module)
        moments = (tensor.nbytes for tensor in states.tensors.values())
        found["gpu_bytes"] |= {"gradients": cuda_memory(gradients), "optimizer": cuda_memory(moments)}
        # As checkpoints have it: in full precision, as safetensors.
        full = outline_of(states, Precision(None), with_values=False)
        found["optimizer_file_bytes"] = file_size(format_of_path(DEFAULT_EXTENSION), full).bytes
    found["gpu_bytes"]["total"] = sum(found["gpu_bytes"].values())
    return found


def _unsaved_buffers(module: "nn.Module") -> Iterator[int]:
    """Bytes of each buffer that records don't hold."""
    for part in module.modules():
        for name in part._non_persistent_buffers_set:
            buffer = part._buffers[name]
            if buffer is not None:
                yield buffer.nbytes


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
