"""Reads the configs of models and trainings, and builds models on the meta device, where nothing is computed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import burnlike.config.registry as registry
from burnlike._lazy import resolve
from burnlike.config import Config, ModuleConfig
from burnlike.config.node import Node, child
from burnlike.config.root_keys import EXTENSION, INPUTS, Input, inputs_of
from burnlike.config.tree import DEFAULTS, read_tree
from burnlike.errors import ConfigError, ConfigIOError

from .options import TRAIN_CONFIG

if TYPE_CHECKING:
    from torch import nn


def root_class(root: Node) -> type[Config]:
    """The class that the root of a config file is read as.

    It is the class that `type:` names, of whatever role. A root without `type:` is a TrainConfig, unless all its keys
    are those of a model and none is one of a training: then it is read as a model, and the message is about the missing
    `type:`. So is a root with an unknown `type:`, for the message that lists the types.
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
    """The model in a YAML file.

    Attributes:
        config: of the module.
        optimizer: the config of its optimizer; None if the file is of a module alone.
        inputs: what the model is called with, as far as the file or the model's class says it.
    """

    config: Any
    optimizer: Any = None
    inputs: tuple[Input, ...] = ()

    def build(self) -> "nn.Module":
        """The module, on the meta device.

        Raises:
            BurnlikeError: the config can't be built.
        """
        from burnlike.train.job.device import build_on_meta

        return build_on_meta(self.config)


def read_model(path: str, imports: Iterable[str], overrides: Iterable[str] = ()) -> Model:
    """Read the config of a run (`burnlike train`) or of a module alone (`type: DecoderLm`). Imports no torch.

    Args:
        imports: modules to import first, that `type:` may name their classes.
        overrides: `a.b=c` each, as `--set` takes them.

    Raises:
        ConfigError: the file can't be read, has mistakes, or is of something else.
    """
    registry.import_modules(imports)
    registry.load_built_in()
    try:
        tree = read_tree(path, overrides)
    except ConfigIOError as error:
        raise ConfigIOError(f"the config can't be read: {error}", error.problems) from error
    config = root_class(tree.root).from_tree(tree)
    if isinstance(config, ModuleConfig):
        said = inputs_of(tree.root, ModuleConfig)
        return Model(config, None, tuple(said or _examples(config)))
    model = getattr(config, "model", None)
    if not isinstance(model, ModuleConfig):
        raise ConfigError(f"{path}: expected the config of a model or of a training, got {type(config).__name__}")
    return Model(model, getattr(config, "optimizer", None), _examples(model))


def _examples(model: ModuleConfig) -> tuple[Input, ...]:
    return tuple(Input(shape, dtype, name) for name, (dtype, shape) in model.example_inputs().items())
