"""`burnlike forecast FILE|CONFIG`: the disk, host and device memory that a record, a model or a training will take."""

import argparse
from dataclasses import replace
from typing import Any

from ..._terminal import table
from ...config import registry
from ...config.shipped import config_file
from ...errors import ArgumentError
from ...record.formats import DEFAULT_EXTENSION, EXTENSIONS, format_of_path
from .. import record_options as options
from ..options import CONFIG_FILES, add_repeated, add_shared, amount, printable, read_model, say, say_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say how many bytes a record takes on disk, in the host's memory while it is saved and loaded, and on a GPU;"
        " from a file's header or a model's config alone. With --world-size: what a step of a training takes of each of"
        " so many processes, and what they exchange, on some meshes; without any of these processes."
    )
    text = "a record of any format; or a YAML config of a run or a model, or a shipped one"
    parser.add_argument("file", type=config_file, metavar="FILE|CONFIG", help=text)
    text = f"the format to be written: {', '.join(options.FORMATS)}; default: that of FILE"
    parser.add_argument("--format", metavar="NAME", help=text)
    text = "add gradients and optimizer states: those of the config's optimizer, else AdamW's"
    parser.add_argument("--optimizer", action="store_true", help=text)
    add_shared(parser, "--json")
    options.add_precision_options(parser)
    options.add_layout_options(parser)
    parser.add_argument("--world-size", type=int, metavar="N", help="forecast a training of N processes")
    text = (
        "a mesh of --world-size, such as tensor=2,shard=-1; may be repeated; default: the config's and the usual ones"
    )
    add_repeated(parser, "--mesh", "meshes", "NAME=SIZE,...", text)
    text = "the memory of a device, such as 80GB: say on which meshes of --world-size a training fits"
    parser.add_argument("--memory", metavar="SIZE", help=text)
    add_shared(parser, "--set")


def run(args: argparse.Namespace) -> int:
    if args.world_size is not None:
        return _of_training(args)
    for name in ("meshes", "memory", "overrides"):
        if getattr(args, name):
            option = {"meshes": "--mesh", "overrides": "--set"}.get(name, f"--{name}")
            raise ArgumentError(
                f"{option} is of a training's forecast; give --world-size, the number of processes, too"
            )
    chosen = None if args.format is None else format_of_path(options.extension_named(args.format))
    if args.file.endswith(CONFIG_FILES):
        model = read_model(args.file, args.imports)
        from ...record import Record

        module = model.build()
        record = Record.of(module)
        if (layout := options.layout_of(args, options.model_of(args))) is not None:
            record = replace(record, layout=layout)
        subject: Any = record, chosen or format_of_path(DEFAULT_EXTENSION), module, model.optimizer
    else:
        record = options.open_file(args.file, options.layout_of(args, options.model_of(args)))
        own_format = options.format_of_file(args.file)
        writable = own_format.extension in EXTENSIONS  # not so what torch.save wrote
        subject = record, chosen or (own_format if writable else format_of_path(DEFAULT_EXTENSION))
    from ...train.job.forecast import forecast

    result = {"source": args.file, **forecast(*subject, precision=options.precision_of(args), steps=args.optimizer)}
    say_json(result) if args.json else say("\n".join(_lines(result)))
    return 0


def _of_training(args: argparse.Namespace) -> int:
    if args.world_size < 1:
        raise ArgumentError(f"--world-size: expected a number of processes, got {args.world_size}")
    memory = None if args.memory is None else options.byte_size("--memory", args.memory)
    registry.import_modules(args.imports)
    from ...train.job import forecast
    from ...train.job.configs import TrainConfig

    training = TrainConfig.load(args.file, args.overrides)
    meshes = [forecast.parse_mesh(mesh) for mesh in args.meshes]
    forecasts = list(forecast.forecast_meshes(training, args.world_size, meshes))
    least = min(forecasts, key=lambda it: it.peak)
    values: dict[str, Any] = {"source": args.file, "world_size": args.world_size, "memory": memory}
    values["meshes"] = forecast.as_values(forecasts, memory)
    lines = [f"{printable(args.file)}, {args.world_size} processes:", *forecast.table_of(forecasts, memory)]
    if memory is not None and least.step is not None and least.peak > memory:
        better = list(forecast.remedies(training, args.world_size, forecast.parse_mesh(least.mesh), memory))
        values["remedies"] = forecast.remedy_values(better, memory)
        lines += forecast.remedy_lines(least.mesh, better, memory)
    say_json(values) if args.json else say("\n".join(lines))
    return 0 if least.step is not None else 2


def _lines(result: dict[str, Any]) -> list[str]:
    host, gpu = result["host_bytes"], result["gpu_bytes"]
    bound = "" if result["file_bytes_exact"] else "at most "
    rows = [
        ("tensors", f"{result['tensors']}, {amount(result['tensor_bytes'])} as they are"),
        ("disk", f"{bound}{amount(result['file_bytes'])} as {result['format']}"),
    ]
    if "optimizer_file_bytes" in result:
        rows.append(("disk", f"{amount(result['optimizer_file_bytes'])} for the optimizer's record"))
    rows += [
        ("host, save", f"{amount(host['save'])} for buffers"),
        ("host, save from GPU", f"{amount(host['save_from_gpu'])} for pinned buffers"),
        ("host, save_async", f"{amount(host['save_async'])}: the buffers and a copy in the types of the file"),
        ("host, load", f"{amount(host['load'])}: the tensors and buffers"),
    ]
    rows += [(f"GPU, {name}", amount(count)) for name, count in gpu.items()]
    return [f"{printable(result['source'])}:", *(f"  {line}" for line in table(rows))]
