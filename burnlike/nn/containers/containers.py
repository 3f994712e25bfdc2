"""Layers in a row: different ones, one several times, and with a connection around them; and graphs of layers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import ArgumentError, TableIndexError
from ...module import Module
from ...ops import linear
from ...tensor.torch_bridge.torch_function import lift
from ..activation.elementwise import Gelu
from ..dropout import Dropout
from ..layer import FromConfig, OfEachElement, expect_shape, shape_error
from ..linear import Identity, Linear
from ..torch_counterpart import AnyLibrary
from .configs import GraphConfig, RepeatConfig, ResidualConfig, SequentialConfig, named_parts
from .graph_problems import item_path, places_of


class Row(AnyLibrary, Module):
    """Layers that are run one after the other; `row[0]`, `len(row)` and iteration give them in that order."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[nn.Module]:
        return self.children()

    def __getitem__(self, index: int) -> nn.Module:
        layers = [*self.children()]
        if not isinstance(index, int):
            raise TypeError(
                f"{type(self).__name__}[...]: expected the number of a layer, got {index!r}; list(row)[...] gives"
                " several, and a name is an attribute"
            )
        if not -len(layers) <= index < len(layers):
            raise TableIndexError(
                f"{type(self).__name__}[{index}]: there are {len(layers)} layers, 0 to {len(layers) - 1}"
            )
        return layers[index]


class Sequential(Row):
    """Layers in a row, by name or 0, 1, 2: each gets the output of the one before. Torch: `nn.Sequential`."""

    def __init__(self, config: SequentialConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        for name, layer in named_parts(config.layers).items():
            self.add_module(name, layer.init(device))

    def parallel_plan(self) -> Mapping[str, str]:
        """The plan of two linear layers with elementwise functions between them: processes share the inner values."""
        return paired(self.named_children())

    def pipeline_stages(self) -> Mapping[str, str]:
        """A pipeline may cut it before each layer."""
        return {"*": "each"}

    @lift
    def forward(self, x: Any) -> Any:
        """The first layer's inputs `->` the last layer's result."""
        return run(self, x)


def paired(layers: Iterable[tuple[str, nn.Module]]) -> dict[str, str]:
    """The plan of layers in a row, by name: of two linear ones each process has some of the values in between."""
    plan: dict[str, str] = {}
    first = None
    for name, layer in layers:
        if isinstance(layer, Linear):
            if first is not None:
                plan |= {first: "colwise", name: "rowwise"}
            first = name if first is None else None
        elif not isinstance(layer, OfEachElement | Gelu | Dropout | Identity):
            first = None
    return plan


def run(layers: nn.Module, x: Any, *others: Any, **named: Any) -> Any:
    """`x` through the children of a module, one after the other; all other inputs go to each of them."""
    for layer in layers.children():
        x = layer(x, *others, **named)
    return x


class Repeat(Row):
    """One layer several times in a row, each with parameters of its own; the layers are its children 0, 1, 2.
    Torch: `nn.Sequential`. Differs: takes one config for all layers, and further inputs for each of them.
    """

    def __init__(self, config: RepeatConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        for number in range(config.times):
            self.add_module(str(number), config.layer_at(number).init(device))

    def pipeline_stages(self) -> Mapping[str, str]:
        """A pipeline may cut it before each layer."""
        return {"*": "each"}

    @lift
    def forward(self, x: Any, *others: Any, **named: Any) -> Any:
        """The layer's input `->` its result, repeated; arguments beside x, as a memory or a mask, are given to each."""
        return run(self, x, *others, **named)


class Residual(AnyLibrary, FromConfig, Module):
    """layers(x) + x (He et al. 2016, eq. 1), or layers(x) + shortcut(x) (eq. 2). Torch: -."""

    def __init__(self, config: ResidualConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.layers = Sequential(SequentialConfig(layers=config.layers), device)
        self.shortcut = None if config.shortcut is None else config.shortcut.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """The first layer's inputs `->` the last layer's result. ShapeError if the summands differ in shape."""
        output = self.layers(x)
        kept = x if self.shortcut is None else self.shortcut(x)
        if output.shape != kept.shape:
            name = "x" if self.shortcut is None else "shortcut(x)"
            expected = f"the shape of what the layers give, {list(output.shape)}"
            raise shape_error(self, expected, list(kept.shape), name=name)
        return output + kept


Source = tuple[str, tuple[str, ...]]
"""An input of the graph or a node, and the index or field to take of its value, of that the next, and so on."""


class Step(NamedTuple):
    """One node as it is run: the child `layer` gets `sources` in order, and those that are `named`.

    With `transposed` the layer's weight is applied the other way round, in place of calling the layer. No later step
    needs the values that are `finished`.
    """

    name: str
    layer: str
    sources: tuple[Source, ...]
    named: tuple[tuple[str, Source], ...]
    finished: tuple[str, ...]
    transposed: bool


class Graph(AnyLibrary, FromConfig, Module):
    """Layers with named inputs and outputs, run in the order in which they are written. Torch: -.

    The layers are its children, by the names of their nodes. A node that uses another one's layer has no child.
    """

    def __init__(self, config: GraphConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        for name, node in config.nodes.items():
            if node.layer is not None:
                self.add_module(name, node.layer.init(device))
        outputs = config.output_names()
        sources = tuple(item_path(source) for _, source in places_of("", outputs))
        self._plan = config.inputs, _steps(config, {name for name, _ in sources}), sources, not isinstance(outputs, str)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of its inputs, in order."""
        return self._plan[0]

    @lift
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The graph's inputs, in order or by name `->` its output, or a tuple of its outputs.

        Raises ArgumentError if an input is missing, unknown or given twice, or a node gives no such item.
        """
        expected, steps, sources, is_tuple = self._plan
        values = dict(zip(expected, inputs, strict=False)) | named
        count = len(expected)
        if len(inputs) + len(named) != count or len(values) != count or any(it not in values for it in expected):
            got = f"{len(inputs)} by order" + (f" and {', '.join(named)} by name" if named else "")
            raise ArgumentError(f"Graph: expected the inputs {', '.join(expected)}, got {got}")
        for step in steps:
            layer = self._modules[step.layer]
            inputs_in_order = [_value(values, source) for source in step.sources]
            if step.transposed:
                values[step.name] = _transposed(layer, *inputs_in_order)
            else:
                assert layer is not None
                values[step.name] = layer(*inputs_in_order, **{name: _value(values, it) for name, it in step.named})
            # Without gradients nothing else keeps them: the next step gets their memory.
            for name in step.finished:
                del values[name]
        outputs = tuple(_value(values, source) for source in sources)
        return outputs if is_tuple else outputs[0]


def _steps(config: GraphConfig, needed: set[str]) -> tuple[Step, ...]:
    """The steps of a graph, each with the values that it is the last to need; `needed` are those at the end."""
    steps = []
    for name, node in reversed(config.nodes.items()):
        sources = [(argument, item_path(source)) for argument, source in config.node_sources(name)]
        finished = dict.fromkeys(source for _, (source, _) in sources if source not in needed)
        needed.update(finished)
        in_order = tuple(source for argument, source in sources if not argument)
        by_name = tuple((argument, source) for argument, source in sources if argument)
        steps.append(Step(name, node.use or name, in_order, by_name, tuple(finished), node.transposed))
    return tuple(reversed(steps))


def _transposed(layer: Any, x: Tensor) -> Tensor:
    """x @ transpose(weight): `[..., d_model] -> [..., n_embedding]` by an Embedding's weight."""
    # A Linear of torch's, which `interop.to_torch` puts here, has the transpose of ours as its weight.
    weight = layer.weight.mT if isinstance(layer, nn.Linear) else layer.weight
    expect_shape(layer, x, "...", weight.shape[1], name="transposed")
    return linear(x, weight)


def _value(values: dict[str, Any], source: Source) -> Any:
    """A value, or its item: of a tuple by its number, of a named tuple or dataclass by the name of a field."""
    name, items = source
    value = values[name]
    for item in items:
        fields = (*getattr(value, "_fields", ()), *getattr(type(value), "__dataclass_fields__", ()))
        if item.isdecimal() and isinstance(value, tuple | list) and int(item) < len(value):
            value = value[int(item)]
        elif item in fields:
            value = getattr(value, item)
        else:
            value_kind = f"{len(value)} items" if isinstance(value, tuple | list) else f"one {type(value).__name__}"
            path, shown = ".".join((name, *items)), ", ".join([value_kind, *fields])
            raise ArgumentError(f"Graph: {path}: '{name}' has no item '{item}' there: it gives {shown}")
    return value
