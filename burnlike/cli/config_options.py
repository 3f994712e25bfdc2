"""Options about configs, and the models that configs describe, built where nothing is computed. Imports no torch."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import burnlike.config.registry as registry
from burnlike._lazy import resolve
from burnlike.config import Config, ModuleConfig, TaskConfig
from burnlike.config.node import Node, child
from burnlike.config.overrides import Option
from burnlike.config.root_keys import EXTENSION, INPUTS, Input, inputs_of, parsed_input
from burnlike.config.tree import DEFAULTS, read_tree
from burnlike.errors import ConfigError, ConfigIOError

if TYPE_CHECKING:
    from torch import nn


TRAIN_CONFIG = "burnlike.train.job.configs:TrainConfig"
"""The class of a shipped YAML file's root."""


def add_repeated(parser: argparse.ArgumentParser, option: str, dest: str, metavar: str, text: str, **more: Any) -> None:
    parser.add_argument(option, dest=dest, metavar=metavar, action="append", default=[], help=text, **more)


def add_import_option(parser: argparse.ArgumentParser) -> None:
    """`--import MODULE`, repeated, as `args.imports`; hand it to `burnlike.config.registry.import_modules`."""
    text = "import a module of your own first, so that `type:` can name its classes; may be repeated"
    add_repeated(parser, "--import", "imports", "MODULE", text)


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """`--set KEY=VALUE`, repeated, as `args.overrides`; hand it to `Config.load`."""
    text = "set a value of the config, such as training.epochs=3, or delete a key, '~training.ema'; may be repeated"
    add_repeated(parser, "--set", "overrides", "KEY=VALUE|~KEY", text)


def add_device_option(parser: argparse.ArgumentParser) -> None:
    """`--device`, which `overrides_of` reads."""
    parser.add_argument("--device", help="auto, cpu, cuda or cuda:N, in place of the config's device")


def overrides_of(args: argparse.Namespace) -> list[str]:
    """The overrides that `--set` and `--device` put into a config."""
    device = [] if args.device is None else [Option(f"device={args.device}", f"--device {args.device}")]
    return [*args.overrides, *device]


def add_input_option(parser: argparse.ArgumentParser) -> None:
    """`--input x=int64:8,128`, repeated, as `args.inputs`."""
    text = "an input of the model, such as 8,3,32,32 or tokens=int64:8,128; may be repeated"
    add_repeated(parser, "--input", "inputs", "[NAME=][DTYPE:]SIZES", text, type=_input_of)


def _input_of(text: str) -> Input:
    parsed = parsed_input(text)
    if isinstance(parsed, str):
        raise argparse.ArgumentTypeError(parsed)
    return parsed


def root_class(root: Node) -> type[Config]:
    """The class that `type:` of a config file's root names, of whatever role; a TrainConfig without `type:`.

    A root with an unknown `type:` is read as a model, for the message that lists the types. So is one without, if all
    its keys are those of a model and none is one of a training: the message is about the missing `type:`.
    """
    tag = child(root, registry.TAG_FIELD)
    if tag is None or not isinstance(tag.value, str):
        training = resolve(TRAIN_CONFIG)
        keys = {key for key in root.value if not key.startswith(EXTENSION) and key != INPUTS} if root.is_map else set()
        if tag is not None or not keys or keys & {DEFAULTS, *registry.fields_of(training)}:
            return training
        registry.load_built_in()
        is_model = any(keys <= registry.fields_of(it).keys() for it in registry.imported(ModuleConfig).values())
        return ModuleConfig if is_model else training
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
