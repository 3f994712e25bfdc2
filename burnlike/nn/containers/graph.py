"""A graph of layers."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import ArgumentError
from ...module import Module
from ...ops import linear
from ...tensor.torch_bridge.torch_function import lift
from ..layer import expect_shape
from ..torch_counterpart import AnyLibrary
from .configs import GraphConfig
from .graph_problems import item_path, places_of


class Source(NamedTuple):
    """What a layer gets: of an input of the graph or a node before, the item at these indices and fields."""

    name: str
    items: tuple[str, ...]


class Step(NamedTuple):
    """One node as it is run.

    Attributes:
        name: of the node.
        layer: the name of the child that computes it.
        sources: of the layer's inputs, in order.
        named: those that are given by name.
        finished: the names whose values no later step needs.
        transposed: whether the layer's weight is applied the other way round, in place of calling the layer.
    """

    name: str
    layer: str
    sources: tuple[Source, ...]
    named: tuple[tuple[str, Source], ...]
    finished: tuple[str, ...]
    transposed: bool


class Plan(NamedTuple):
    """A graph as it is run.

    Attributes:
        inputs: names, in the order of the arguments.
        steps: in the order in which they are run.
        outputs: what the graph gives.
        is_tuple: whether that is a tuple, and not the value of its only output.
    """

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Source, ...]
    is_tuple: bool


class Graph(AnyLibrary, Module):
    """Layers with named inputs and outputs, run in the order in which they are written. Torch: -.

    The layers are its children, by the names of their nodes. A node that uses another one's layer has no child.
    """

    def __init__(self, config: GraphConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        for name, node in config.nodes.items():
            if node.layer is not None:
                self.add_module(name, node.layer.init(device))
        self._plan = plan_of(config)

    @lift
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The graph's inputs, in order or by name `->` its output, or a tuple of its outputs.

        Raises ArgumentError if an input is missing, unknown or given twice, or a node gives no such item.
        """
        plan = self._plan
        values = dict(zip(plan.inputs, inputs, strict=False)) | named
        count = len(plan.inputs)
        if len(inputs) + len(named) != count or len(values) != count or any(it not in values for it in plan.inputs):
            raise _wrong_inputs(plan.inputs, len(inputs), [*named])
        for step in plan.steps:
            layer = self._modules[step.layer]
            given = [_value(values, it) for it in step.sources]
            if step.transposed:
                values[step.name] = _transposed(layer, *given)
            else:
                assert layer is not None
                values[step.name] = layer(*given, **{name: _value(values, it) for name, it in step.named})
            for name in step.finished:
                del values[name]
        outputs = tuple(_value(values, it) for it in plan.outputs)
        return outputs if plan.is_tuple else outputs[0]


def plan_of(config: GraphConfig) -> Plan:
    """The steps of a graph, each with the values that it is the last to need."""
    outputs = config.output_names()
    sources = [Source(*item_path(source)) for _, source in places_of("", outputs)]
    needed = {source.name for source in sources}
    steps = []
    for name, node in reversed(config.nodes.items()):
        given = [(argument, Source(*item_path(source))) for argument, source in config.node_sources(name)]
        finished = dict.fromkeys(source.name for _, source in given if source.name not in needed)
        needed.update(finished)
        in_order = tuple(source for argument, source in given if not argument)
        by_name = tuple((argument, source) for argument, source in given if argument)
        steps.append(Step(name, node.use or name, in_order, by_name, tuple(finished), node.transposed))
    return Plan(config.inputs, tuple(reversed(steps)), tuple(sources), not isinstance(outputs, str))


def _transposed(layer: Any, x: Tensor) -> Tensor:
    """x @ transpose(weight): `[..., d_model] -> [..., n_embedding]` by an Embedding's weight."""
    # A Linear of torch's, which `interop.to_torch` puts here, has the transpose of ours as its weight.
    weight = layer.weight.mT if isinstance(layer, nn.Linear) else layer.weight
    expect_shape(layer, x, "...", weight.shape[1], name="transposed")
    return linear(x, weight)


def _value(values: dict[str, Any], source: Source) -> Any:
    value = values[source.name]
    for item in source.items:
        value = _item(value, item, source)
    return value


def _item(value: Any, item: str, source: Source) -> Any:
    """The item of a tuple by its number, or the field of a named tuple or dataclass by its name."""
    if item.isdecimal():
        if isinstance(value, tuple | list) and int(item) < len(value):
            return value[int(item)]
    elif item in _fields_of(value):
        return getattr(value, item)
    raise _no_item(value, item, source)


def _fields_of(value: Any) -> tuple[str, ...]:
    """The names of the fields that a layer's output has."""
    return (*getattr(value, "_fields", ()), *getattr(type(value), "__dataclass_fields__", ()))


def _no_item(value: Any, item: str, source: Source) -> ArgumentError:
    given = [f"{len(value)} items"] if isinstance(value, tuple | list) else [f"one {type(value).__name__}"]
    path = ".".join((source.name, *source.items))
    shown = ", ".join([*given, *_fields_of(value)])
    return ArgumentError(f"Graph: {path}: '{source.name}' has no item '{item}' there: it gives {shown}")


def _wrong_inputs(expected: tuple[str, ...], given: int, named: list[str]) -> ArgumentError:
    got = f"{given} by order" + (f" and {', '.join(named)} by name" if named else "")
    return ArgumentError(f"Graph: expected the inputs {', '.join(expected)}, got {got}")
