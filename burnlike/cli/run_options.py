"""Options of commands that use the model of a run."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import burnlike.config.registry as registry
from burnlike.config import DatasetConfig
from burnlike.config.node import child
from burnlike.config.tree import read_tree
from burnlike.errors import ConfigError
from burnlike.train.runs.run_dir import local_run

from .config_options import add_device_option, add_import_option, add_set_option

if TYPE_CHECKING:
    from burnlike.train import LoadedRun

RUNS = Path("runs")
_PLACE = "the directory of a run, or its name in runs/"


def add_run_options(parser: argparse.ArgumentParser, place: str = _PLACE) -> None:
    """`RUN`, and the options that `opened` reads."""
    parser.add_argument("place", metavar="RUN", help=place)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--best", action="store_true", help="the weights of the best validation")
    which.add_argument("--step", type=int, metavar="N", help="the weights of the checkpoint of this step")
    add_device_option(parser)
    add_set_option(parser)
    add_import_option(parser)


def place_of(name: str, root: Path = RUNS) -> Path:
    """The directory of a run: the path, or that of the run of this name in `root`."""
    path = local_run(name)
    return path if path.is_dir() or not (root / name).is_dir() else root / name


def opened(args: argparse.Namespace) -> "LoadedRun":
    """The run that the arguments name, with its model."""
    from burnlike.train.runs.run_dir import config_of

    registry.import_modules(args.imports)
    config_of(place_of(args.place))  # a wrong path is told before torch is imported
    from burnlike.train import load_run

    best = True if args.best else None
    return load_run(place_of(args.place), best=best, step=args.step, device=args.device, overrides=args.overrides)


def data_config(path: str) -> Any:
    """The config of a data set in a YAML file: that of its root, or of its key `data`."""
    tree = read_tree(path, [])
    root = child(tree.root, "data") or tree.root
    dataset = DatasetConfig.from_tree(tree._replace(root=root))
    if type(dataset) is DatasetConfig:
        raise ConfigError(f"{path}: expected the config of a data set, with `type:`, or a mapping with `data:`")
    return dataset
