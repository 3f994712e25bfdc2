"""`burnlike convert IN OUT`: writes a record in another format, in another precision, or under other names."""

import argparse
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..._outputs import Output
from ..._patterns import compiled
from ..._regular_file import read_regular
from ...errors import RecordError, nearest
from ...models.weights.table import weight_tables
from ...record.files.reading import INDEX_SUFFIX, find_record, listed_names, shard_pattern, single_path
from ...record.formats import DEFAULT_EXTENSION, EXTENSIONS, format_of_path
from ...record.layout import known_layout, tag_of
from .. import record_options as options
from ..options import add_force_option, add_repeated, amount, printable, say

if TYPE_CHECKING:
    from torch import nn

    from ...record import Precision, Record


_DCP = "dcp"
"""The extension of a directory to write for torch.distributed.checkpoint, and what `--format` calls it."""
_OF_TORCH = (".pt", DEFAULT_EXTENSION)
"""Extensions of the formats in which PyTorch programs save."""


def check_names(args: argparse.Namespace) -> None:
    for option, name in (("--from", args.source), ("--to", args.target)):
        if name is not None and name not in _names():
            names = ", ".join(_names())
            raise RecordError(f"{option} {name}: expected one of {names}{nearest(name, _names())}")
    if args.model is None and args.source == "torch":
        raise RecordError("--from torch needs --model CONFIG, which says what layers there are")
    if args.model is None and args.target != "burnlike" and args.source not in weight_tables():
        raise RecordError(f"--to {args.target} needs --model CONFIG, which says what layers there are")


def model_to_convert(args: argparse.Namespace) -> "nn.Module | None":
    """The module of `--model`, else for another library's weights that of the `config.json` beside them."""
    if args.model is not None or args.source not in weight_tables():
        return options.model_of(args)
    from ...models.pretrained import pretrained_config, pretrained_table
    from ...train.job.device import build_on_meta

    options.format_of_file(args.input)  # a path that leads to no record is told as such
    directory = args.input if os.path.isdir(args.input) else os.path.dirname(args.input) or os.curdir
    if (table_name := pretrained_table(directory).name) != args.source:
        raise RecordError(f"{directory}: its config.json is of a model of {table_name}, got --from {args.source}")
    return build_on_meta(pretrained_config(directory))


def translated(args: argparse.Namespace, module: "nn.Module | None", record: "Record") -> "Record":
    if module is None:
        return record
    source = args.source or _source_of(args, module, record)
    if source == args.target:
        return record
    from ...interop import record_from_torch, record_to_torch
    from ...models import record_from, record_to

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
    if record.ids or options.format_of_file(args.input).extension not in _OF_TORCH:
        return "burnlike"
    from ...interop.torch_names import names_of

    names = names_of(module, record)
    if names is None:
        raise RecordError(
            f"{args.input}: its names and shapes are those of {type(module).__name__} in torch and in Burn, which lay"
            " some of them out in different ways; say by --from torch or --from burnlike whose they are"
        )
    return names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a record in another format, in other types or under other names, in a few megabytes of memory. OUT"
        " is written whole or not at all; nothing is lost: values, ids, ties and metadata are kept."
    )
    parser.epilog = (
        "Examples: burnlike convert model.safetensors model.mpk --precision bf16 --keep norm --ids; of a model that was"
        " trained in PyTorch, for Burn: burnlike convert model.pt model.mpk --model model.yaml; of one from Hugging"
        " Face, with its config.json: burnlike convert directory model.safetensors --from llama"
    )
    parser.add_argument(
        "input",
        metavar="IN",
        help="a record of any format, told by its content; a directory or index of shards, too, and a directory of"
        " torch.distributed.checkpoint",
    )
    text = (
        f"the file to write, never IN itself; its extension says the format: {', '.join(EXTENSIONS)}; or a new"
        " directory NAME.dcp, which torch.distributed.checkpoint.load reads"
    )
    parser.add_argument("output", metavar="OUT", help=text)
    add_force_option(parser, "OUT")
    text = f"the format, where the extension of OUT does not say it: {', '.join(options.FORMATS)}, {_DCP}"
    parser.add_argument("--format", metavar="NAME", help=text)
    options.add_precision_options(parser)
    text = "replace what REGEX finds in tensors' names by NEW (\\1 is its first group); may be repeated, in order"
    add_repeated(parser, "--rename", "rename", "REGEX=NEW", text)
    parser.add_argument(
        "--ids", action="store_true", help="draw ids for tensors without one, which Burn's own formats need"
    )
    parser.add_argument(
        "--shard-size",
        metavar="SIZE",
        help="make OUT a directory: of safetensors files of at most this size, such as 2GB, and their index, if the"
        " tensors take more than one",
    )
    parser.add_argument(
        "--top-level-key",
        metavar="KEY",
        help="of a file of torch.save, or a directory of torch's checkpoints, take only what is under this key, such as"
        " model",
    )
    options.add_layout_options(parser)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="NAMES",
        help=f"whose names and layouts the tensors of IN have: {', '.join(_names())}; it needs --model, or of another"
        " library's a config.json beside IN. Default: burnlike's, or with --model told by names and shapes",
    )
    parser.add_argument(
        "--to", dest="target", metavar="NAMES", default="burnlike", help="whose OUT gets; default: burnlike's"
    )


def run(args: argparse.Namespace) -> int:
    # What is wrong with the options shows before torch is loaded and files are opened.
    rules = [(pattern, new) for pattern, _, new in (text.rpartition("=") for text in args.rename)]
    if wrong := [text for text, (pattern, _) in zip(args.rename, rules, strict=True) if not pattern]:
        raise RecordError(f"--rename {wrong[0]}: expected REGEX=NEW, such as '^model\\.=' or 'gamma$=weight'")
    shard_bytes = None if args.shard_size is None else options.byte_size("--shard-size", args.shard_size)
    is_dcp = shard_bytes is None and (args.format or os.path.splitext(args.output)[1]).removeprefix(".") == _DCP
    name = DEFAULT_EXTENSION if is_dcp else _file_name(args.output, args.format, shard_bytes is not None)
    check_names(args)
    checks = _checks_of(args, name, is_dcp=is_dcp, is_sharded=shard_bytes is not None)
    for check in checks:
        check()
    precision, module = options.precision_of(args), model_to_convert(args)
    layout = options.layout_of(args, module)
    record = options.open_file(args.input, layout, args.top_level_key)
    from ...record.tools.renaming import rename, with_ids

    record = rename(record, rules) if rules else record
    if layout is not None and options.format_of_file(args.input).has_names:
        record = replace(record, layout=known_layout(layout))  # which has the new names
    record = translated(args, module, record)
    if not format_of_path(name).has_names and (record.layout is None or tag_of(record.layout) == "$named"):
        raise RecordError(
            f"{args.output}: bincode needs the layout of the record, which is not known: give --layout FILE, or --model"
            " CONFIG.yaml of its model"
        )
    record = with_ids(record) if args.ids else record
    names = [*record.tensors, *record.aliases]
    for pattern in args.keep:
        if not any(map(compiled(pattern).search, names)):
            raise RecordError(f"--keep {pattern}: no tensor has such a name; {args.input} has {', '.join(names[:5])}")
    began = time.perf_counter()
    from ...record import DcpRecorder, SafetensorsRecorder
    from ...record.recorder import recorder_for

    if is_dcp:
        recorder = DcpRecorder(precision)
    elif shard_bytes is not None:
        recorder = SafetensorsRecorder(precision, shard_bytes=shard_bytes)
    else:
        recorder = recorder_for(name, precision)
    # Once more: opening and renaming may take minutes, in which something else can come to OUT.
    for check in checks:
        check()
    written = recorder.save(record, args.output)
    say("\n".join(_report(args.input, written, record, precision, time.perf_counter() - began)))
    return 0


def _file_name(output: str, format_name: str | None, sharded: bool) -> str:
    if sharded:
        if format_name not in (None, "safetensors"):
            raise RecordError(f"--shard-size writes safetensors files, got --format {format_name}; leave one out")
        if output.endswith(tuple(extension for extension in EXTENSIONS if extension != DEFAULT_EXTENSION)):
            raise RecordError(f"--shard-size writes a directory of safetensors files, got {output}; leave out one")
        return "model.safetensors"
    if format_name is not None:
        return f"x{options.extension_named(format_name)}"
    if os.path.isdir(output):
        raise RecordError(f"{output} is a directory: expected the name of a file, or --shard-size for a set of files")
    try:
        return f"x{format_of_path(output).extension}"
    except RecordError as error:
        raise RecordError(f"{error}, or --format") from error


def _checks_of(args: argparse.Namespace, name: str, *, is_dcp: bool, is_sharded: bool) -> list[Callable[[], None]]:
    """Functions that raise an ArgumentError if OUT may not be written: of a set for its directory and for each file."""
    read = [it for it in (args.input, args.layout, args.model) if it is not None]
    with contextlib.suppress(RecordError, OSError):  # told when it is opened
        file = find_record(args.input)
        read.append(file)
        if file.endswith(INDEX_SUFFIX):  # its shards, and the single file that would count before them
            read.append(file.removesuffix(INDEX_SUFFIX))
            read += [os.path.join(os.path.dirname(file), name) for name in listed_names(read_regular(file)) or ()]

    def output(path: str) -> Output:
        return Output(path, "convert", "OUT", inputs=read, force=args.force)

    if is_dcp:
        return [output(args.output).check_place]  # the recorder replaces no directory
    if not is_sharded:
        from ...record.recorder import with_extension

        return [output(with_extension(args.output, name.removeprefix("x"))).check_file]
    folder, file = os.path.split(single_path(args.output))
    pattern = shard_pattern(file.removesuffix(DEFAULT_EXTENSION))
    there = filter(pattern.fullmatch, os.listdir(folder or os.curdir) if os.path.isdir(folder or os.curdir) else [])
    files = [output(os.path.join(folder, it)).check_file for it in (file, file + INDEX_SUFFIX, *there)]
    return [output(folder).check_folder, *files] if folder == args.output.rstrip(os.sep) else files


def _report(source: str, written: str, record: "Record", precision: "Precision | None", seconds: float) -> list[str]:
    from ...record.precision import Precision
    from ...record.recorder import outline_of

    before, after = outline_of(record, Precision(None)), outline_of(record, precision or Precision(None))
    tensor_bytes = sum(entry.nbytes for entry in after.entries.values())
    pairs = ((before.entries[name].dtype, entry.dtype) for name, entry in after.entries.items())
    changes = Counter((old, new) for old, new in pairs if old != new)
    files = [written]
    if os.path.isdir(written):
        files = [os.path.join(written, name) for name in os.listdir(written)]
    elif written.endswith(INDEX_SUFFIX):
        files = [os.path.join(os.path.dirname(written), name) for name in listed_names(read_regular(written)) or ()]
    size = sum(map(os.path.getsize, files))
    return [
        f"{printable(source)} -> {printable(written)}: {len(after.entries)} tensors, {amount(tensor_bytes)},"
        f" in {amount(size)} ({seconds:.1f} s)",
        *(f"  {count} stored as {new} instead of {old}" for (old, new), count in changes.items()),
    ]
