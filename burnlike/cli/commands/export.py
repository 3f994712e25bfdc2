"""`burnlike export RUN --to onnx`: the model of a run for other programs."""

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import burnlike.config.registry as registry
from burnlike._outputs import Output
from burnlike.config.shipped import config_file
from burnlike.errors import ArgumentError

from ..options import (
    CONFIG_FILES,
    add_force_option,
    add_run_options,
    add_shared,
    opened,
    paths_in,
    place_of,
    read_model,
    say,
)

if TYPE_CHECKING:
    from burnlike.train.export.source import Source

_TARGETS = ("onnx", "pt2", "hf", "gguf", "burn")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""A function of a Python module that gives the model: `my_package.nets:make_net`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    text = (
        "onnx: for onnxruntime; pt2: a program of torch.export; hf: a directory that transformers loads; gguf: for"
        " llama.cpp; burn: a crate of Rust for Burn"
    )
    parser.add_argument("--to", required=True, choices=_TARGETS, help=text)
    text = (
        "the file of onnx, pt2 and gguf, the directory of hf and burn (default: in exports/ of the run); an"
        " earlier export is replaced, and nothing else"
    )
    parser.add_argument("--out", type=Path, metavar="PATH", help=text)
    parser.add_argument("--record", type=Path, metavar="FILE", help="where RUN is the YAML of a model: its weights")
    add_force_option(parser, "--out FILE")
    text = "the type of the parameters (default: as they are)"
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], help=text)
    text = "round the weights of matrix products: int8 for onnx and pt2; q8_0 or q4_k (8 or 4 bits) for gguf"
    parser.add_argument("--quantize", choices=["int8", "q8_0", "q4_k"], help=text)
    text = "put what `Normalize` of the data does into the model, which then takes images as they are read"
    parser.add_argument("--with-normalize", action="store_true", help=text)
    add_shared(parser, "--input")


def run(args: argparse.Namespace) -> int:
    source = _source(args)
    from burnlike.train.export.exporting import MARKS, NAMES, export

    if source.run is None:
        is_file = os.path.isfile(args.place)
        folder = Path(args.place).parent if is_file else Path()
        config, read = source.config, [it for it in (args.place, args.record) if it is not None and is_file]
    else:
        config, folder, read = source.run.config, source.run.path, [source.run.path]
    path = folder / "exports" / NAMES[args.to] if args.out is None else args.out
    if args.out is None and not os.access(path.parent if path.parent.exists() else folder, os.W_OK):
        raise ArgumentError(f"{folder}: nothing can be written there; give the export a place by --out PATH")
    read += [] if config is None else paths_in(config.to_dict())
    out = Output(path, "export", inputs=read, force=args.force, mark=MARKS.get(args.to))
    options = {"dtype": args.dtype, "quantize": args.quantize, "normalize": args.with_normalize, "inputs": args.inputs}
    for line in export(source, args.to, out, **options):
        say(line)
    return 0


def _source(args: argparse.Namespace) -> "Source":
    if _FUNCTION.fullmatch(args.place):
        registry.import_modules([*args.imports, args.place.partition(":")[0]])
        from burnlike.train.export.source import source_of_function

        return source_of_function(args.place)
    is_config = args.place.endswith(CONFIG_FILES)
    is_shipped = not is_config and not place_of(args.place).is_dir() and config_file(args.place) != args.place
    if is_shipped and args.to == "burn":
        args.out = args.out or Path("exports", "burn")
        args.place, is_config = config_file(args.place), True
    if is_config:
        if args.record is None and args.to != "burn":
            raise ArgumentError(f"{args.place}: give the weights of this model by --record FILE, or name a run")
        model = read_model(args.place, args.imports, args.overrides)
        args.inputs = args.inputs or model.inputs
        from burnlike.train.export.source import source_of_config

        return source_of_config(model.config, args.record, model.training)
    if args.record is not None:
        place = place_of(args.place)
        raise ArgumentError(f"--record is for the YAML of a model; {place} is a run, which has its weights")
    loaded = opened(args)
    from burnlike.train.export.source import source_of_run

    return source_of_run(loaded)
