"""The drawing of a model as data: its layers in rows, and the arrows between them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...config import ModuleConfig
from ...nn.containers.configs import (
    GraphConfig,
    NodeConfig,
    RepeatConfig,
    ResidualConfig,
    SequentialConfig,
    named_parts,
)
from ...nn.containers.graph_problems import item_path, places_of

if TYPE_CHECKING:
    from torch import nn


class Arrow(NamedTuple):
    """A value that goes from one row, by its number, to another; its part that is taken, or the argument it is for."""

    source: int
    target: int
    label: str = ""


@dataclass
class Row:
    """A box, or the name of an input or output.

    Attributes:
        lines: what stands below: the type, parameters, the shape of what it gives.
        family: of its layer, `conv` or `norm`, which is its color; `value` for inputs and outputs.
    """

    title: str
    lines: list[str] = field(default_factory=list)
    family: str = "value"
    inner: "Flow | None" = None


@dataclass
class Flow:
    """Rows from top to bottom, and the arrows between them."""

    rows: list[Row] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def add(self, row: Row, sources: Iterable[tuple[int, str]]) -> int:
        """Add a row with arrows to it; gives its number."""
        self.rows.append(row)
        target = len(self.rows) - 1
        self.arrows += [Arrow(source, target, label) for source, label in sources]
        return target


class Drawn(NamedTuple):
    """A layer that is to be drawn, at a path in the model.

    Attributes:
        config: None for a layer that is in the model without a config of its own.
        shapes: of what layers give, by their paths in the model; empty where they are not known.
    """

    config: ModuleConfig | None
    module: "nn.Module"
    shapes: dict[str, str]
    path: str = ""

    def below(self, name: str, config: ModuleConfig | None) -> "Drawn":
        path = f"{self.path}.{name}" if self.path else name
        return Drawn(config, self.module.get_submodule(name), self.shapes, path)


def flow_of(drawn: Drawn) -> Flow:
    """The drawing of a whole model."""
    return _inner(drawn) or Flow([_row(drawn, "model")])


def _inner(drawn: Drawn) -> Flow | None:
    """The drawing inside the box of a layer that is made of layers, None for any other."""
    match drawn.config:
        case SequentialConfig():
            flow = Flow()
            _chain(flow, drawn, drawn.config, None)
            return flow
        case ResidualConfig():
            flow, config = Flow(), drawn.config
            kept = x = flow.add(Row("x"), ())
            layers = SequentialConfig(layers=config.layers)
            last = _chain(flow, drawn.below("layers", layers), layers, x)
            if config.shortcut is not None:
                kept = flow.add(_row(drawn.below("shortcut", config.shortcut), "shortcut"), [(x, "")])
            flow.add(Row("+"), [(last, ""), (kept, "")])
            return flow
        case RepeatConfig():
            below = drawn.below("0", drawn.config.layer)
            return _inner(below) or Flow([_row(below, "each")])
        case GraphConfig():
            return _graph(drawn, drawn.config)
    return None


def _row(drawn: Drawn, title: str) -> Row:
    kind = type(drawn.module).__name__
    times = f" x {drawn.config.times}" if isinstance(drawn.config, RepeatConfig) else ""
    count = sum(it.numel() for it in drawn.module.parameters())
    lines = [f"{kind}{times}" + (f" · {count:,}" if count else "")]
    if drawn.path in drawn.shapes:
        lines.append(drawn.shapes[drawn.path])
    # A family of layers is a folder, which a class shows by nothing but its module's name; this chooses a color only.
    module = type(drawn.config).__module__.split(".")
    family = module[2] if module[:2] == ["burnlike", "nn"] else "model"
    return Row(title, lines, family, _inner(drawn))


def _chain(flow: Flow, drawn: Drawn, config: SequentialConfig, before: int | None) -> int:
    """Add layers in a row after the row `before`; gives the number of the last."""
    for name, layer in named_parts(config.layers).items():
        row = _row(drawn.below(name, layer), name)
        before = flow.add(row, () if before is None else [(before, "")])
    assert before is not None
    return before


def _graph(drawn: Drawn, config: GraphConfig) -> Flow:
    flow = Flow()
    numbers = {name: flow.add(Row(name), ()) for name in config.inputs}
    for name, node in config.nodes.items():
        arguments = [(argument, item_path(source)) for argument, source in config.node_sources(name)]
        sources = [(numbers[it], _label(argument, items)) for argument, (it, items) in arguments]
        numbers[name] = flow.add(_node(drawn, name, node), sources)
    outputs = config.output_names()
    if outputs != [*config.nodes][-1]:
        outputs_of_graph = [item_path(source) for _, source in places_of("", outputs)]
        flow.add(Row("output"), [(numbers[name], _label("", items)) for name, items in outputs_of_graph])
    return flow


def _node(drawn: Drawn, name: str, node: NodeConfig) -> Row:
    if node.layer is not None:
        return _row(drawn.below(name, node.layer), name)
    used: Any = node.use
    kind = type(drawn.module.get_submodule(used)).__name__
    return Row(name, [f"{kind} of {used}" + (", transposed" if node.transposed else "")], "used")


def _label(argument: str, items: tuple[str, ...]) -> str:
    return " ".join(it for it in (f"{argument} =" if argument else "", ".".join(("", *items))) if it)
