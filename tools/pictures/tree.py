"""The tree of a small language model, with the parameters of each part."""

from collections.abc import Iterator

from burnlike.config import ModuleConfig
from burnlike.module.printing.tree import Branch, branch_of, grouped

from .svg import MARGIN, WIDTH, Picture

_ROW, _INDENT, _BAR = 22, 18, 70
_COLORS = {"Embedding": "blue", "Linear": "green", "RmsNorm": "gold", "CausalAttention": "pink", "SwiGlu": "orange"}
_STYLE = ".t-bar{fill:#8a919c}"
MODEL = """
type: DecoderLm
vocab_size: 256
max_sequence_length: 64
d_model: 64
n_layers: 2
n_heads: 4
d_ff: 128
"""


def draw() -> Picture:
    tree = branch_of(ModuleConfig.from_yaml(MODEL).init("meta"))
    rows = [(0, "", tree, 1), *_rows(tree, 1)]
    picture = Picture(
        "The tree of a language model: modules, shapes and numbers of parameters",
        len(rows) * _ROW + 32,
        more_style=_STYLE,
    )
    above: dict[int, float] = {}  # where the line to the next module of a depth begins: below its parent or sibling
    for number, (depth, name, branch, times) in enumerate(rows):
        y = 16 + number * _ROW
        x = MARGIN + depth * _INDENT
        if depth:
            picture.path(f"M{x - 12} {above[depth]}V{y + 11}H{x - 4}")
        above[depth], above[depth + 1] = y + 11, y + _ROW - 2
        label = f"{name}: " if name else ""
        kind = f"{times} x {branch.type}" if times > 1 else branch.type
        picture.text(x, y + 15, label, "m", len(label) * 7)
        color = _COLORS.get(branch.type)
        start = x + len(label) * 7
        picture.text(start, y + 15, kind, f"m b{f' t-{color}' if color else ''}", len(kind) * 7)
        shapes = ", ".join(it.partition(" ")[2] for it in branch.tensors)
        if shapes:
            picture.text(start + (len(kind) + 1) * 7, y + 15, shapes, "m soft", len(shapes) * 7)
        if branch.count:
            width = max(branch.count / tree.count * _BAR, 1)
            picture.box(WIDTH - MARGIN - _BAR, y + 5, width, 12, f"t-{color or 'bar'}", 0)
            picture.text(WIDTH - MARGIN - _BAR - 8, y + 15, f"{branch.count:,}{' each' * (times > 1)}", "s e")
    return picture


def _rows(tree: Branch, depth: int) -> Iterator[tuple[int, str, Branch, int]]:
    for name, child, times in grouped(tree.children):
        yield depth, name, child, times
        yield from _rows(child, depth + 1)
