"""`burnlike predict RUN FILES`: what the model of a run says of new inputs."""

import argparse
import sys
from pathlib import Path

from burnlike.errors import ArgumentError

from ..options import add_force_option, add_run_options, opened, paths_in, place_of
from ..prediction_files import output_of, write_predictions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    text = "files or directories with inputs, as the run's data has them without targets; - reads standard input"
    parser.add_argument("sources", nargs="+", metavar="FILE", help=text)
    text = "where to write: FILE.csv, FILE.jsonl, or a directory for masks (default: CSV on standard output)"
    parser.add_argument("--out", metavar="PATH", help=text)
    add_force_option(parser, "--out FILE")
    parser.add_argument("--batch-size", type=int, metavar="N", help="inputs of a batch (default: as the training)")
    text = "compute with weights in 8 bits, of linear layers"
    parser.add_argument("--quantize", choices=["int8"], help=text)


def run(args: argparse.Namespace) -> int:
    if args.batch_size is not None and args.batch_size < 1:
        raise ArgumentError(f"--batch-size: expected at least 1, got {args.batch_size}")
    out = output_of(args.out, [place_of(args.place), *(it for it in args.sources if it != "-")], force=args.force)
    if missing := [it for it in args.sources if it != "-" and not Path(it).exists()]:
        raise ArgumentError(f"there is no file or directory {missing[0]}; check the path")
    sources = [sys.stdin if it == "-" else Path(it) for it in args.sources]
    loaded = opened(args)
    if out is not None:
        out.inputs += paths_in(loaded.config.to_dict())
    if args.quantize is not None:
        from burnlike.interop.quantize import quantize_

        quantize_(loaded.model, args.quantize)
    from burnlike.train.job.loaded_run import predictions

    count = write_predictions(out, predictions(loaded, sources, args.batch_size))
    if args.out is not None:
        print(f"{count:,} predictions are in {args.out}")
    return 0
