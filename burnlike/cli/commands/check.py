"""`burnlike check CONFIG...`: lists every mistake of YAML configs; imports torch for trainings and for shapes."""

import argparse
import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import burnlike.config.registry as registry
from burnlike._memory import collections_paused
from burnlike._terminal import one_line
from burnlike.config import Config
from burnlike.config.file_paths import missing_files
from burnlike.config.hiding import hide_values
from burnlike.config.node import Tree, find
from burnlike.config.overrides import reading
from burnlike.config.shipped import config_file
from burnlike.config.tree import read_tree
from burnlike.errors import ArgumentError, ConfigError, Problem

from ..options import Input, add_shared, expect_config, root_class, say, say_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=config_file, metavar="CONFIG", help="a YAML file, or a shipped config")
    text = "the config type of the files (default: what their `type:` names, else TrainConfig)"
    parser.add_argument("--root", metavar="TYPE", help=text)
    parser.add_argument(
        "--no-paths", action="store_true", help="do not look whether files are there: for a config of another machine"
    )
    parser.add_argument(
        "--fast", action="store_true", help="only read the config: without torch, the data, and the batch of a training"
    )
    add_shared(parser, "--json")
    parser.add_argument(
        "--shapes", action="store_true", help="also run the model without values, and print the shapes of each layer"
    )
    parser.add_argument(
        "--world-size", type=int, metavar="N", help="also print how N processes lie in the mesh of `distributed`"
    )
    add_shared(parser, "--input", "--set", "--import")


@collections_paused()
def run(args: argparse.Namespace) -> int:
    """Print the mistakes of each file; 0 if there is none, else 2."""
    registry.import_modules(args.imports)  # first: `--root` may name a class of these
    root = registry.named(Config, args.root) if args.root else None
    inputs = args.inputs if args.shapes or args.inputs else None
    options: dict[str, Any] = {"paths": not args.no_paths, "fast": args.fast, "inputs": inputs}
    if args.world_size is not None:
        if args.world_size < 1:
            raise ArgumentError(f"--world-size: expected a number of processes, got {args.world_size}")
        options["world_size"] = args.world_size
    reports = [examine(file, root, args.overrides, **options) for file in args.files]
    mistakes = sum(len(report["mistakes"]) for report in reports)
    if args.json:
        say_json({"ok": not mistakes, "mistakes": mistakes, "files": reports})
    else:
        for report in reports:
            say(_text(report))
        if mistakes:
            wrong = sum(not report["ok"] for report in reports)
            print(f"{_count(mistakes, 'mistake')} in {_count(wrong, 'file')} of {len(reports)}")
    return 2 if mistakes else 0


def examine(
    file: str,
    root: type[Config] | None,
    overrides: list[str],
    *,
    paths: bool = True,
    fast: bool = False,
    inputs: list[Input] | None = None,
    world_size: int | None = None,
) -> dict[str, Any]:
    """Check one file: its report has `file`, `ok` and `mistakes`; of a right one also `type` and `parts`, the type of
    each field that has one, and `calls` if the model was run.

    `root` is the class of the file; None for what the file says. With `paths` the files that it names have to be
    there; `fast` only reads the config, without torch and its data. With `inputs` the model is run to see its shapes;
    none for what the config implies, None not to run it. With `world_size` the report has `mesh`, how so many processes
    lie in it.
    """

    def read(options: list[str]) -> tuple[Tree, Config]:
        tree = read_tree(expect_config(file), options)
        config = (root or root_class(tree.root)).from_tree(tree)
        shown = [*missing_files(config)] if paths else []
        if not (shown or fast) and hasattr(config, "data") and find_spec("torch") is not None:
            from ...train.job.trial import trial_problems  # torch, for which a mistake in the YAML need not wait

            text = config.to_yaml()
            problems = trial_problems(config, data=paths and inputs is None)
            # Errors of torch, and of classes of one's own, may repeat values that came from the environment.
            shown = [(path, hide_values(message, text)) for path, message in problems]
        if shown:
            raise ConfigError.of(find(tree.root, path).place.problem(path, message) for path, message in shown)
        return tree, config

    try:
        tree, config = reading(read, overrides)
    except ConfigError as error:
        return _wrong(file, error.problems or [Problem(str(error), source=file)])
    values = ((name, getattr(config, name)) for name in config.__struct_fields__)
    parts = {name: tag for name, value in values if isinstance(value, Config) and (tag := registry.tag_of(type(value)))}
    kind = registry.tag_of(type(config)) or type(config).__name__
    report = {"file": file, "ok": True, "mistakes": [], "type": kind, "parts": parts}
    if world_size is not None:
        training: Any = config
        try:
            if not hasattr(training, "distributed"):
                raise ConfigError("distributed: --world-size is for a training, which this is not")
            sizes = training.distributed.sizes(world_size)
            # Of a step of a process with items of its own.
            items = training.training.batch_size * training.training.accumulation_steps
            report["mesh"] = {"sizes": sizes._asdict(), "items": items}
        except ConfigError as error:
            path, _, message = str(error).partition(": ")
            return report | _wrong(file, [find(tree.root, path).place.problem(path, message)])
    if inputs is None:
        return report
    from ...train.job.trial import traced

    try:
        shapes, problems = traced(config, tree.root, inputs)
    except ConfigError as error:
        return report | _wrong(file, [Problem(str(error), source=file)])
    return report | {"calls": [call._asdict() for call in shapes.calls]} | (_wrong(file, problems) if problems else {})


def _wrong(file: str, problems: Sequence[Problem]) -> dict[str, Any]:
    return {"file": file, "ok": False, "mistakes": [problem._asdict() for problem in problems]}


def _text(report: dict[str, Any]) -> str:
    lines = []
    if report.get("calls"):  # of a model that was run
        from ...models.views.shapes import Call, shape_table

        lines = shape_table([Call(**call) for call in report["calls"]])
    if mesh := report.get("mesh"):
        from ...train.parallel.configs import MeshSizes, mesh_table

        lines = [*lines, *mesh_table(MeshSizes(**mesh["sizes"]), mesh["items"])]
    if report["ok"]:
        parts = "".join(f", {name} {tag}" for name, tag in report["parts"].items())
        lines = [*lines, f"{report['file']}: ok ({report['type']}{parts})"]
    for mistake in report["mistakes"]:
        lines += re.split(r"\n(?=  )", str(Problem(**mistake)))  # of a table, YAML to paste
    return "\n".join(map(one_line, lines))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
