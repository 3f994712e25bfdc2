"""Options that commands share, and what they name: configs, the models of these, runs, files to write; and text for
terminals.

Imports no torch.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import burnlike.config.registry as registry
from burnlike.config import Config, DatasetConfig, ModuleConfig, TaskConfig
from burnlike.config.node import Node, child
from burnlike.config.overrides import Option
from burnlike.config.root_keys import EXTENSION, INPUTS, Input, inputs_of, parsed_input
from burnlike.config.tree import DEFAULTS, read_tree
from burnlike.errors import ConfigError, ConfigIOError
from burnlike.train.runs.run_dir import CONFIG_NAME, config_of, local_run

from .._terminal import harmless

if TYPE_CHECKING:
    from torch import nn

    from burnlike.train import LoadedRun


_LONGEST_VALUE = 100
_MEANS_MORE = "'\\"
"""Characters that end or escape something between `$'` and `'`."""


def say(text: str) -> None:
    """Print what may come from files: without codes that a terminal would obey."""
    print(harmless(text))


def warn(text: str) -> None:
    """Print to standard error what may come from files, beside what a command gives on standard output."""
    print(harmless(text), file=sys.stderr)


def show(piece: str, *, flush: bool = True) -> None:
    """Print a piece of data as it is; on a terminal without codes that it would obey."""
    print(harmless(piece) if sys.stdout.isatty() else piece, end="", flush=flush)


def say_json(value: Any, indent: int | None = 2) -> None:
    """Print JSON for programs, and for terminals: letters as they are, what is not printable as `\\u001b`."""
    # Not `harmless`, which replaces codes: what a program reads has to stay the value that it was.
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    print("".join(it if it.isprintable() or it == "\n" else json.dumps(it)[1:-1] for it in text))


def shortened(value: Any) -> str:
    """A plain value in at most about a hundred characters."""
    text = printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}... ({len(text)} characters)"


def printable(text: str) -> str:
    """The text; with line breaks and codes that a terminal would obey as `\\n`, `\\x1b` and the like, in quotes."""
    return text if text.isprintable() else repr(text)


def shell_word(text: str) -> str:
    """The text as one word of a shell's command line, printable and on one line (`$'...'` as bash and zsh read it)."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = {it: "".join(f"\\x{byte:02x}" for byte in os.fsencode(it)) for it in text}
    return f"$'{''.join(it if it.isprintable() and it not in _MEANS_MORE else escaped[it] for it in text)}'"


def amount(count: int) -> str:
    """A number of bytes as people read it: `1.50 GB (1500000000 bytes)`."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.2f} {unit} ({count} bytes)"
    return f"{count} bytes"


RUNS = Path("runs")
_PLACE = "the directory of a run, or its name in runs/"
_LONGEST = 4096
CONFIG_FILES = (".yaml", ".yml")
DATA_FILES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".conll", ".txt", ".xlsx", ".json")
"""The ends of names of files that are data, and no configs."""
_GLOB = "*?["


def _input_of(text: str) -> Input:
    parsed = parsed_input(text)
    if isinstance(parsed, str):
        raise argparse.ArgumentTypeError(parsed)
    return parsed


_REPEATED: dict[str, Any] = {"action": "append", "default": []}
_SHARED: dict[str, dict[str, Any]] = {
    "--import": {
        **_REPEATED,
        "dest": "imports",
        "metavar": "MODULE",
        "help": "import a module of your own first, so that `type:` can name its classes; may be repeated",
    },
    "--set": {
        **_REPEATED,
        "dest": "overrides",
        "metavar": "KEY=VALUE|~KEY",
        "help": "set a value of the config, such as training.epochs=3, or delete a key, '~training.ema'; may be"
        " repeated",
    },
    "--device": {"help": "auto, cpu, cuda or cuda:N, in place of the config's device"},
    "--input": {
        **_REPEATED,
        "dest": "inputs",
        "metavar": "[NAME=][DTYPE:]SIZES",
        "type": _input_of,
        "help": "an input of the model, such as 8,3,32,32 or tokens=int64:8,128; may be repeated",
    },
    "--json": {"action": "store_true", "help": "print one JSON object"},
}
"""Options of several commands: `registry.import_modules` takes `imports`, `Config.load` what `overrides_of` gives."""


def add_shared(parser: argparse.ArgumentParser, *options: str) -> None:
    """Add options of `_SHARED`, by their names."""
    for option in options:
        parser.add_argument(option, **_SHARED[option])


def add_repeated(parser: argparse.ArgumentParser, option: str, dest: str, metavar: str, text: str) -> None:
    parser.add_argument(option, dest=dest, metavar=metavar, help=text, **_REPEATED)


def add_force_option(parser: argparse.ArgumentParser, option: str = "--out") -> None:
    """`--force`, for `burnlike._outputs.Output`."""
    text = f"let {option} replace a file that is there already; never one that is read, nor one in a run's directory"
    parser.add_argument("--force", action="store_true", help=text)


def overrides_of(args: argparse.Namespace) -> list[str]:
    """The overrides that `--set` and `--device` put into a config."""
    device = [] if args.device is None else [Option(f"device={args.device}", f"--device {args.device}")]
    return [*args.overrides, *device]


def root_class(root: Node) -> type[Config]:
    """The class that `type:` of a config file's root names, of whatever role; a TrainConfig without `type:`.

    A root with an unknown `type:` is read as a model, for the message that lists the types. So is one without, if all
    its keys are those of a model and none is one of a training: the message is about the missing `type:`.
    """
    tag = child(root, registry.TAG_FIELD)
    if tag is None or not isinstance(tag.value, str):
        # Not above: it takes time, which commands about records alone need not.
        from burnlike.train.job.configs import TrainConfig

        keys = {key for key in root.value if not key.startswith(EXTENSION) and key != INPUTS} if root.is_map else set()
        if tag is not None or not keys or keys & {DEFAULTS, *registry.fields_of(TrainConfig)}:
            return TrainConfig
        registry.load_built_in()
        is_model = any(keys <= registry.fields_of(value).keys() for value in registry.imported(ModuleConfig).values())
        return ModuleConfig if is_model else TrainConfig
    try:
        return ModuleConfig if registry.lookup(ModuleConfig, tag.value) else registry.named(Config, tag.value)
    except ConfigError:
        return ModuleConfig


@dataclass(frozen=True)
class Model:
    """The model in a YAML file; its optimizer and its training are None if the file is of a module alone.

    `inputs` are what it is called with, as far as the file or the model's class says it.
    """

    config: Any
    optimizer: Any = None
    inputs: tuple[Input, ...] = ()
    training: Any = None

    def build(self) -> "nn.Module":
        from burnlike.train.job.device import build_on_meta

        return build_on_meta(self.config)


def read_model(path: str, imports: Iterable[str], overrides: Iterable[str] = ()) -> Model:
    """Read the config of a run (`burnlike train`) or of a module alone (`type: DecoderLm`). Imports no torch."""
    registry.import_modules(imports)
    registry.load_built_in()
    try:
        tree = read_tree(path, overrides)
    except ConfigIOError as error:
        raise ConfigIOError(f"the config can't be read: {error}", error.problems) from error
    config = root_class(tree.root).from_tree(tree)
    if isinstance(config, ModuleConfig):
        model, inputs = config, inputs_of(tree.root, ModuleConfig)
    else:
        model, inputs = getattr(config, "model", None), None
        if isinstance(model, ModuleConfig) and isinstance(task := getattr(config, "task", None), TaskConfig):
            model = model.for_task(task.head, None)
    if not isinstance(model, ModuleConfig):
        raise ConfigError(f"{path}: expected the config of a model or of a training, got {type(config).__name__}")
    examples = (Input(shape, dtype, name) for name, (dtype, shape) in model.example_inputs().items())
    training = None if config is model else config
    return Model(model, getattr(config, "optimizer", None), tuple(inputs or examples), training)


def expect_config(path: str | Path) -> Path:
    """The path of a config; a ConfigError names the command that writes one where it is of data."""
    place = Path(path)
    is_data = place.suffix.lower() in DATA_FILES or place.is_dir()
    kind = "the folder" if place.is_dir() else "the data"
    if is_data and place.exists() and not (place / "config.yaml").exists():
        raise ConfigError(
            f"expected the YAML file of a config, got {kind} {path}; `burnlike"
            f" init --from {shell_word(str(path))}` looks at it and writes a config that trains"
        )
    return place


def add_run_options(parser: argparse.ArgumentParser, place: str = _PLACE) -> None:
    """`RUN`, and the options that `opened` reads."""
    parser.add_argument("place", metavar="RUN", help=place)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--best", action="store_true", help="the weights of the best validation")
    which.add_argument("--step", type=int, metavar="N", help="the weights of the checkpoint of this step")
    add_shared(parser, "--device", "--set", "--import")


def place_of(name: str, root: Path = RUNS) -> Path:
    """The directory of a run: that of the run of this name in `root`, or the path.

    A run is found by its name where a folder of data has the same, such as `photos` beside `runs/photos`.
    """
    path = local_run(name)
    is_path = path.is_dir() and (os.sep in name or not _is_run(root / name) or _is_run(path))
    return path if is_path or not (root / name).is_dir() else root / name


def _is_run(path: Path) -> bool:
    return (path / CONFIG_NAME).is_file()


def opened(args: argparse.Namespace) -> "LoadedRun":
    """The run that the arguments name, with its model."""
    registry.import_modules(args.imports)
    config_of(place_of(args.place))  # a wrong path is told before torch is imported
    from burnlike.train import load_run

    best = True if args.best else None  # not False: without the option the config says which weights
    return load_run(place_of(args.place), best=best, step=args.step, device=args.device, overrides=args.overrides)


def data_config(path: str) -> Any:
    """The config of a data set in a YAML file: that of its root, or of its key `data`."""
    tree = read_tree(path, [])
    root = child(tree.root, "data") or tree.root
    dataset = DatasetConfig.from_tree(tree._replace(root=root))
    if type(dataset) is DatasetConfig:
        raise ConfigError(f"{path}: expected the config of a data set, with `type:`, or a mapping with `data:`")
    return dataset


def paths_in(value: Any) -> Iterator[Path]:
    """Files and directories that a config, given as plain values, names: its data, the model it starts from, and so on.

    Of a pattern such as `shards/*.parquet` it is the directory before the first wildcard.
    """
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from paths_in(item)
    # A longer text is none that the system can look for, and Python raises for one with a zero byte.
    elif isinstance(value, str) and 0 < len(value) < _LONGEST and "\0" not in value:
        path = Path(value).expanduser() if value.startswith("~/") else Path(value)
        parts = path.parts
        wild = next((number for number, part in enumerate(parts) if any(it in part for it in _GLOB)), None)
        path = path if wild is None else Path(*parts[:wild])
        if path.parts and os.path.exists(path):
            yield path
