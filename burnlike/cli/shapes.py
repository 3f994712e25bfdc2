"""`burnlike check CONFIG --shapes`: the shapes of a model, layer by layer."""

from typing import Any

from burnlike._terminal import table
from burnlike.config import ModuleConfig
from burnlike.config.node import Node, find
from burnlike.config.root_keys import inputs_of
from burnlike.errors import BurnlikeError, ConfigError, Problem

from .calls import Call, Trace, trace
from .inputs import Input

_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


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
    from burnlike.train.job.device import build_on_meta
    from burnlike.train.job.trial import config_path

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


def shape_table(calls: list[Call]) -> list[str]:
    """The calls as lines of a table, and the model's totals if it ran to its end."""
    rows = [("layer", "type", "in", "out", "parameters", "FLOPs")]
    above: list[str] = []
    for call in calls:
        del above[call.depth :]
        name = call.path.removeprefix(f"{above[-1]}.") if above and above[-1] else call.path
        above.append(call.path)
        numbers = f"{call.parameters:,}" if call.parameters else "-", operations(call.flops)
        output = call.output or "failed"
        rows.append((f"{'  ' * call.depth}{name or '(model)'}", call.type, call.inputs, output, *numbers))
    widths = [max(len(row[column]) for row in rows) for column in (4, 5)]
    rows = [(*row[:4], row[4].rjust(widths[0]), row[5].rjust(widths[1])) for row in rows]
    total = calls[0]
    lines = table(rows)
    if total.output:
        lines += [f"total: {total.parameters:,} parameters, {operations(total.flops)} FLOPs for these inputs"]
    return lines


def operations(count: int) -> str:
    """A number of operations as people read it: `1.11 G`."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return str(count) if count else "-"
