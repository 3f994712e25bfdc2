"""The drawing of a model: its layers in rows and the arrows between them as data (`Flow`), and that as an SVG.

Rows go from top to bottom, and arrows past rows on lanes at their right.
"""

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._terminal import one_line
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
    count = sum(parameter.numel() for parameter in drawn.module.parameters())
    lines = [f"{kind}{times}" + (f" · {count:,}" if count else "")]
    if drawn.path in drawn.shapes:
        lines.append(drawn.shapes[drawn.path])
    # A family of layers is a file or folder, which a class shows by its module's name alone; this chooses a color only.
    module = type(drawn.module).__module__.split(".")
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


TITLE, TEXT = 13, 11
LINE, PAD, GAP, LANE = 15, 10, 24, 16
LETTER = 0.6
"""The width of a letter, as a part of the size of the font."""

COLORS = {
    "value": ("#ffffff", "#8a8f98"),
    "used": ("#ffffff", "#5f6570"),
    **dict.fromkeys(("conv", "blocks"), ("#dcebfb", "#3f7fbf")),
    **dict.fromkeys(("linear", "embedding"), ("#dff3e4", "#3d9155")),
    "norm": ("#fdf1d3", "#b98a1e"),
    "activation": ("#fbe3df", "#c05b48"),
    **dict.fromkeys(("attention", "transformer", "recurrent"), ("#ece3f8", "#7d55b5")),
    "loss": ("#fbe0ec", "#b8487e"),
    "containers": ("#fafbfc", "#9aa1ab"),
}
"""The fill and the border of a box by the family of its layer."""
OTHER = ("#eef0f3", "#767d88")


@dataclass
class Box:
    """A row with its size, and its place once it is known; a pill is the name of a value and no layer."""

    row: Row
    width: float
    height: float
    inner: "Layout | None"
    x: float = 0
    y: float = 0

    @property
    def is_pill(self) -> bool:
        return self.row.family == "value"


@dataclass
class Layout:
    """The boxes of a flow, from top to bottom, with their places relative to its corner.

    Attributes:
        lanes: the lane of each arrow that goes past rows.
        width: of everything, lanes included; `column` is that of the boxes alone.
    """

    flow: Flow
    boxes: list[Box]
    lanes: dict[Arrow, int] = field(default_factory=dict)
    width: float = 0
    height: float = 0
    column: float = 0


def svg(flow: Flow, title: str) -> str:
    """A whole SVG file."""
    layout = place(flow)
    width = max(layout.width, len(title) * TITLE * LETTER) + 4 * PAD
    height = layout.height + 5 * PAD + LINE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(2 * PAD, 2 * PAD, title, TITLE, "#1f2328", anchor="start", bold=True),
        *_drawn(layout, (width - layout.width) / 2, 3 * PAD + LINE),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def place(flow: Flow) -> Layout:
    """The places of everything in a drawing."""
    layout = Layout(flow, [_box(row) for row in flow.rows])
    layout.column = max(box.width for box in layout.boxes)
    layout.lanes = _lanes(flow.arrows)
    y = 0.0
    for box in layout.boxes:
        box.x, box.y = (layout.column - box.width) / 2, y
        y += box.height + GAP
    lanes = max(layout.lanes.values(), default=-1) + 1
    labels = max((len(lane.label) for lane in layout.lanes), default=0) * TEXT * LETTER
    layout.width = layout.column + (PAD + lanes * LANE + labels if lanes else 0)
    layout.height = y - GAP
    return layout


def _box(row: Row) -> Box:
    inner = None if row.inner is None else place(row.inner)
    letters = max([len(row.title) * TITLE * 1.1, *(len(line) * TEXT for line in row.lines)]) * LETTER
    if inner is None:
        height = LINE + 6 if row.family == "value" else LINE * (1 + len(row.lines)) + PAD
        return Box(row, max(letters + 2 * PAD, 28), height, None)
    head = _title_width(row) + len(" · ".join(row.lines)) * TEXT * LETTER
    return Box(row, max(head, inner.width) + 2 * PAD, inner.height + 2 * PAD + LINE + 6, inner)


def _title_width(row: Row) -> float:
    # In bold letters, with the space after it.
    return (len(row.title) * 1.1 + 1) * TITLE * LETTER


def _lanes(arrows: list[Arrow]) -> dict[Arrow, int]:
    """A lane for each arrow that goes past rows: the short ones are near the boxes, and none lie over each other."""
    lanes: dict[Arrow, int] = {}
    for arrow in sorted(set(arrows), key=lambda it: (it.target - it.source, it.source)):
        if arrow.target - arrow.source < 2:
            continue
        crossed = [lane for lane in lanes if lane.source < arrow.target and arrow.source < lane.target]
        taken = {lanes[it] for it in crossed}
        lanes[arrow] = next(lane for lane in range(len(taken) + 1) if lane not in taken)
    return lanes


def _drawn(layout: Layout, x: float, y: float) -> list[str]:
    """The boxes and arrows of a layout whose corner is at `x`, `y`."""
    parts = []
    for arrow in dict.fromkeys(layout.flow.arrows):
        source, target = layout.boxes[arrow.source], layout.boxes[arrow.target]
        if arrow in layout.lanes:
            lane = x + layout.column + PAD + layout.lanes[arrow] * LANE
            start = y + source.y + source.height * (0.5 if source.is_pill else 0.7)
            end = y + target.y + target.height * (0.5 if target.is_pill else 0.3)
            right = [x + it.x + it.width for it in (source, target)]
            parts += _line([(right[0], start), (lane, start), (lane, end), (right[1], end)], arrow.label)
        else:
            middle = x + layout.column / 2
            parts += _line([(middle, y + source.y + source.height), (middle, y + target.y)], arrow.label)
    for box in layout.boxes:
        parts += _box_drawn(box, x + box.x, y + box.y)
    return parts


def _line(points: list[tuple[float, float]], label: str) -> list[str]:
    """A line with an arrowhead at its end, and a label beside it."""
    path = " ".join(f"{'L' if place else 'M'} {x:.1f} {y:.1f}" for place, (x, y) in enumerate(points))
    (before_x, before_y), (x, y) = points[-2:]
    if before_x == x:
        head = f"M {x:.1f} {y:.1f} l -4 -7 l 8 0 z"
        label_x, label_y = x + 6, (before_y + y) / 2
    else:
        head = f"M {x:.1f} {y:.1f} l 7 -4 l 0 8 z"
        label_x, label_y = points[1][0] + 4, (points[1][1] + points[2][1]) / 2
    shapes = [f'<path d="{path}" fill="none" stroke="#5f6570"/>', f'<path d="{head}" fill="#5f6570"/>']
    return [*shapes, _text(label_x, label_y, label, TEXT, "#5f6570", anchor="start")] if label else shapes


def _box_drawn(box: Box, x: float, y: float) -> list[str]:
    fill, border = COLORS.get(box.row.family, OTHER)
    radius = box.height / 2 if box.is_pill else 6
    dashes = ' stroke-dasharray="4 3"' if box.row.family == "used" else ""
    parts = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.1f}"'
        f' fill="{fill}" stroke="{border}"{dashes}/>'
    ]
    if box.inner is not None:
        left = x + PAD
        parts.append(_text(left, y + PAD + 4, box.row.title, TITLE, "#1f2328", anchor="start", bold=True))
        left += _title_width(box.row)
        parts.append(_text(left, y + PAD + 4, " · ".join(box.row.lines), TEXT, "#454b54", anchor="start"))
        shift = (box.width - 2 * PAD - box.inner.width) / 2
        return parts + _drawn(box.inner, x + PAD + shift, y + PAD + LINE + 6)
    middle = x + box.width / 2
    first = y + box.height / 2 if box.is_pill else y + PAD / 2 + LINE / 2
    parts.append(_text(middle, first, box.row.title, TITLE, "#1f2328", bold=not box.is_pill))
    for number, line in enumerate(box.row.lines, 1):
        parts.append(_text(middle, first + number * LINE, line, TEXT, "#454b54"))
    return parts


def _text(x: float, y: float, text: str, size: int, color: str, anchor: str = "middle", bold: bool = False) -> str:
    """A text around the height `y`; it is escaped."""
    weight = ' font-weight="bold"' if bold else ""
    shown = html.escape(one_line(text))
    return (
        f'<text x="{x:.1f}" y="{y + size * 0.35:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"'
        f"{weight}>{shown}</text>"
    )
