"""A model's flow as an SVG: rows from top to bottom, and arrows past rows on lanes at their right."""

import html
from dataclasses import dataclass, field

from ..._terminal import one_line
from .flows import Arrow, Flow, Row

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
    labels = max((len(it.label) for it in layout.lanes), default=0) * TEXT * LETTER
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
        crossed = [it for it in lanes if it.source < arrow.target and arrow.source < it.target]
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
