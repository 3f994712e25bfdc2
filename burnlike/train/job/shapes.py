"""The shapes of the model of a config, layer by layer, with what is wrong at its place in the config."""

from typing import Any

from ...config import ModuleConfig
from ...config.node import Node, find
from ...config.root_keys import Input, inputs_of
from ...errors import BurnlikeError, ConfigError, Problem
from ...models.views.shapes import Trace, trace
from .device import build_on_meta
from .trial import config_path


def traced(config: Any, tree: Node, inputs: list[Input]) -> tuple[Trace, list[Problem]]:
    """Run the model of a config without values.

    Args:
        config: of a module, or of a run.
        tree: that it was read from, for the places of mistakes.
        inputs: of the model; none takes those that the config implies.

    Returns:
        The calls, and what is wrong, at its place in the config.

    Raises:
        ConfigError: the config does not say what the inputs are.
    """
    path, model = _model_of(config)
    place = find(tree, path).place
    given = inputs or _implied(config, model, tree)
    try:
        module = build_on_meta(model)
    except (BurnlikeError, RuntimeError, NotImplementedError) as error:
        return Trace([]), [place.problem(path, f"can't be built without values: {' '.join(str(error).split())}")]
    found = trace(module, given)
    if found.failed is None:
        return found, []
    below, rest = config_path(model, found.failed.path)
    path = ".".join(it for it in (path, below) if it)
    kind = found.failed.type
    message = found.message if found.message.startswith(f"{kind}: ") else f"{kind}: {found.message}"
    return found, [find(tree, path).place.problem(path, f"{rest}: {message}" if rest else message)]


def _model_of(config: Any) -> tuple[str, ModuleConfig]:
    """The config of the model and its path."""
    if isinstance(config, ModuleConfig):
        return "", config
    model = getattr(config, "model", None)
    if isinstance(model, ModuleConfig):
        return "model", model
    raise ConfigError(f"--shapes: {type(config).__name__} has no model")


def _implied(config: Any, model: ModuleConfig, tree: Node) -> list[Input]:
    """The inputs that a config implies: its `inputs:`, tokens or images of its data, or what the model's class says.

    Raises:
        ConfigError: neither says anything.
    """
    if config is model and (said := inputs_of(tree, ModuleConfig)):
        return said
    data = getattr(config, "data", None)
    length, shape = getattr(data, "context_length", None), getattr(data, "item_shape", None)
    if length is not None:
        return [Input((config.training.batch_size, length), "int64")]
    if shape is not None:
        for transform in config.transforms:
            shape = transform.item_shape(shape) if "train" in transform.parts else shape
        return [Input((config.training.batch_size, *shape), "float32")]
    found = [Input(shape, dtype, name) for name, (dtype, shape) in model.example_inputs().items()]
    if not found:
        raise ConfigError(
            "--shapes: the config does not say what the model's inputs are; give them by --input, such as"
            " --input 8,3,32,32 or --input tokens=int64:8,128, or as `inputs: [8, 3, 32, 32]` in the file of a model"
        )
    return found
