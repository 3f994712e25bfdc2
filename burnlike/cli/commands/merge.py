"""`burnlike merge RUN --out DIR`: a model with adapters as a plain one."""

import argparse
from pathlib import Path

from burnlike._outputs import Output
from burnlike.errors import ArgumentError

from ..options import add_run_options, opened, paths_in, place_of, say

_ADAPTER = "adapter_config.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(
        parser, "the directory of a run, or its name in runs/; or a directory of peft with its adapter_config.json"
    )
    text = "of adapters of peft: the directory of their model (default: the one that adapter_config.json names)"
    parser.add_argument("--base", metavar="DIR", help=text)
    text = (
        "the directory to write, which transformers loads; of a model of burnlike it gets a record and a config;"
        " an earlier result is replaced, and nothing else"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)


def run(args: argparse.Namespace) -> int:
    place = place_of(args.place)
    is_adapter = (place / _ADAPTER).is_file()
    if args.base is not None and not is_adapter:
        raise ArgumentError(f"--base is for adapters of peft; {place} is a run, which names its base in its config")
    of_runs = {"--best": args.best, "--step": args.step is not None, "--set": args.overrides, "--device": args.device}
    if is_adapter and (run_options := [name for name, value in of_runs.items() if value]):
        raise ArgumentError(f"{run_options[0]} is for runs; {place} has the adapters of peft, which are of one step")
    out = Output(args.out, "merge", inputs=[place, *([] if args.base is None else [args.base])])
    out.check_directory()  # before the model is loaded, which may take minutes
    if is_adapter:
        from burnlike.train.export.hugging_face import merge_directory

        lines = merge_directory(place, args.base, out)
    else:
        loaded = opened(args)
        out.inputs += paths_in(loaded.config.to_dict())
        from burnlike.train.export.hugging_face import merge_run

        lines = merge_run(loaded, out)
    for line in lines:
        say(line)
    return 0
