"""What torch says of a config: its groups, patterns, one batch without values, and the shapes of its layers."""

from collections.abc import Iterator
from typing import Any

from ...config import ModuleConfig
from ...config.node import Node, find
from ...config.root_keys import Input, inputs_of
from ...data import transformed
from ...errors import BurnlikeError, ConfigError, Problem
from ...models.views.shapes import Trace, trace
from ...module import params
from ...module.groups.param_group import ParamGroup
from ...module.groups.param_matchers import MatchIds
from .configs import TrainConfig
from .device import build_on_meta
from .starting import record_problems, untrained_problems
from .trial import batch_problems, config_path, needs_values, said


def trial_problems(config: Any, *, data: bool) -> list[tuple[str, str]]:
    """The paths in a config of a training, and what is wrong there.

    Args:
        data: whether its data is read.
    """
    if not (isinstance(config, TrainConfig) and isinstance(config.model, ModuleConfig)):
        return []
    try:
        module = build_on_meta(config.model)
    except (BurnlikeError, RuntimeError, NotImplementedError) as error:
        return [] if needs_values(error) else [("model", said(error))]
    found = [*unmatched_groups(config, module)]
    if not data:
        return [*found, *untrained_problems(module, config)]
    return [*found, *record_problems(config, module), *_data_problems(config, module)]


def _data_problems(config: Any, module: Any) -> list[tuple[str, str]]:
    """What is wrong with the data, with the length of the run for it, and with a batch of it."""
    try:
        data = transformed(config.data.init(), config.transforms)
        batches = -(-len(data.train) // config.training.batch_size)
    except Exception as error:  # of a class of one's own, anything
        return [("data", said(error))]
    found: list[tuple[str, str]] = []
    if config.training.steps_per_epoch is None:
        steps = config.training.epochs * config.training.steps_of(batches)
        reason = f"training.epochs times the batches of {len(data.train)} items"
        found += config.schedule_problems(steps, reason)
    try:
        return [*found, *batch_problems(config, data, module)]
    except BurnlikeError as error:
        return [*found, ("data", said(error))]


def unmatched_groups(config: Any, module: Any) -> Iterator[tuple[str, str]]:
    """The path of each group that matches no parameter, and what is wrong.

    Groups by id are left out: ids are drawn when the training begins.

    Args:
        module: the model.
    """
    weights = params(module, "weight")
    for part in ("optimizer", "lr_scheduler"):
        for place, group in enumerate(getattr(getattr(config, part), "groups", ())):
            if not (_has_ids(group.params) or any(group.params.matches(param) for param in weights)):
                known = ", ".join(param.path for param in weights[:5]) + (", ..." if weights[5:] else "")
                yield f"{part}.groups.{place}.params", f"matches no parameter of the model ({known}): {group.params}"


def _has_ids(group: ParamGroup) -> bool:
    return any(isinstance(rule, MatchIds) for rule in (*group.match, *group.excludes))


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
