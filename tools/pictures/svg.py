"""A picture: shapes and texts in classes of a few colours, which a dark system replaces.

The width is that of a phone's page and a half, so that texts stay readable there. Every picture has its own ground, and
is readable on a page of any colour.
"""

import html
from collections.abc import Sequence

WIDTH, MARGIN = 480, 16
MONO_LETTER = 0.602
"""The width of a letter of a font whose letters are equally wide, as a part of its size."""
LIGHT = {
    "ground": "#ffffff", "edge": "#d9dce1", "ink": "#1c1e21", "soft": "#59616d", "line": "#8a919c", "plain": "#f3f4f6",
    "blue": "#0067a3", "orange": "#b04a00", "green": "#00734f", "pink": "#a03a7c", "gold": "#7d5a00",
}  # fmt: skip
DARK = {
    "ground": "#15181d", "edge": "#343a43", "ink": "#e8eaed", "soft": "#a3acb8", "line": "#7d8794", "plain": "#20252c",
    "blue": "#6fc1f0", "orange": "#ff9e66", "green": "#4dd3ad", "pink": "#eda4cd", "gold": "#f0c95c",
}  # fmt: skip
TINTS = ("blue", "orange", "green", "pink", "gold")
OPACITY = {True: 0.2, False: 0.1}
"""Of tinted boxes, in the dark and in the light."""
SANS = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif'
MONO = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'


def style(more: str = "") -> str:
    """The classes, for light and for dark; `more` is CSS of one picture."""
    fixed = (
        f"text{{font-family:{SANS};font-size:14px}}.m{{font-family:{MONO};font-size:12.5px;white-space:pre}}"
        ".s{font-size:12.5px}.b{font-weight:600}.h{font-size:16px;font-weight:600}.e{text-anchor:end}"
        ".c{text-anchor:middle}path{fill:none}"
    )
    return f"{fixed}{_colors(LIGHT, False)}@media(prefers-color-scheme:dark){{{_colors(DARK, True)}}}{more}"


def _colors(colors: dict[str, str], is_dark: bool) -> str:
    rules = [
        f".ground{{fill:{colors['ground']};stroke:{colors['edge']}}}",
        f".plain{{fill:{colors['plain']};stroke:{colors['edge']}}}",
        f".line{{stroke:{colors['line']}}}.tip{{fill:{colors['line']}}}.edge{{stroke:{colors['edge']}}}",
        f"text,.ink{{fill:{colors['ink']}}}.soft{{fill:{colors['soft']}}}",
    ]
    for name in TINTS:
        it = colors[name]
        rules.append(
            f".{name}{{fill:{it};fill-opacity:{OPACITY[is_dark]};stroke:{it}}}.t-{name}{{fill:{it}}}"
            f".l-{name}{{stroke:{it};stroke-width:2}}"
        )
    return "".join(rules)


class Picture:
    """Shapes in the order in which they are drawn.

    Attributes:
        title: what readers are told who don't see it, in a few words; the page's alt text says more.
    """

    def __init__(self, title: str, height: float, width: float = WIDTH, more_style: str = "") -> None:
        self.title, self.height, self.width = title, height, width
        self._more_style = more_style
        self._parts: list[str] = []

    def raw(self, text: str) -> None:
        self._parts.append(text)

    def box(self, x: float, y: float, width: float, height: float, color: str = "plain", radius: float = 6) -> None:
        size = f'width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}"'
        self.raw(f'<rect x="{_n(x)}" y="{_n(y)}" {size} class="{color}"/>')

    def text(self, x: float, y: float, text: str, classes: str = "", width: float | None = None) -> None:
        """A text whose baseline is at `y`; `width` makes it as long, for letters that stand under each other."""
        fitted = f' textLength="{_n(width)}" lengthAdjust="spacingAndGlyphs"' if width is not None else ""
        named = f' class="{classes}"' if classes else ""
        self.raw(f'<text x="{_n(x)}" y="{_n(y)}"{named}{fitted}>{html.escape(text, quote=False)}</text>')

    def mono(self, x: float, y: float, text: str, classes: str = "") -> None:
        """A text of a program, in letters of equal width."""
        self.text(x, y, text, f"m {classes}".strip(), len(text) * 12.5 * MONO_LETTER)

    def lines(self, x: float, y: float, texts: Sequence[str], classes: str = "", step: float = 18) -> None:
        for number, text in enumerate(texts):
            self.text(x, y + number * step, text, classes)

    def card(self, x: float, y: float, width: float, title: str, texts: Sequence[str], color: str = "plain") -> float:
        """A box with a bold line and others below it; the height that it takes."""
        height = 30 + 17 * len(texts) + (2 if texts else 0)
        self.box(x, y, width, height, color)
        self.text(x + 10, y + 20, title, f"b t-{color}" if color in TINTS else "b")
        self.lines(x + 10, y + 38, texts, "s", 17)
        return height

    def path(self, data: str, classes: str = "line") -> None:
        self.raw(f'<path d="{data}" class="{classes}"/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float, classes: str = "line", tip: str = "tip") -> None:
        """A straight line along one axis, with a head at its end."""
        self.path(f"M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}", classes)
        along, across = ((1 if x2 > x1 else -1), 0) if y1 == y2 else (0, (1 if y2 > y1 else -1))
        corners = [
            (x2 + along, y2 + across),
            (x2 - 7 * along + 4 * across, y2 - 7 * across + 4 * along),
            (x2 - 7 * along - 4 * across, y2 - 7 * across - 4 * along),
        ]
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in corners)
        self.raw(f'<polygon points="{points}" class="{tip}"/>')

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(self.width)}" height="{_n(self.height)}"'
            f' viewBox="0 0 {_n(self.width)} {_n(self.height)}" role="img" aria-labelledby="title">'
            f'<title id="title">{html.escape(self.title, quote=False)}</title><style>{style(self._more_style)}</style>'
        )
        ground = (
            f'<rect x=".5" y=".5" width="{_n(self.width - 1)}" height="{_n(self.height - 1)}" rx="10" class="ground"/>'
        )
        return "\n".join([head, ground, *self._parts, "</svg>"]) + "\n"


def _n(value: float) -> str:
    """A number in few letters."""
    return f"{value:.1f}".removesuffix(".0")
