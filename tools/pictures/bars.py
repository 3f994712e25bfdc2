"""Bars of a table of `docs/measured/`: how many times as fast burnlike is as the other side, on a scale of doublings.

The tables are the only source of the numbers. Their columns are: what was measured, ours, theirs, and the ratio.
"""

import math
import re
from pathlib import Path

from .svg import MARGIN, WIDTH, Picture

DOCS = Path(__file__).parents[2] / "docs/measured"
TABLES = {
    "speeds_files": ("parts.md", "Files", "Speeds of saving and loading beside safetensors and torch"),
    "speeds_generation": ("models.md", "Generation", "Speeds of generation beside transformers and ONNX Runtime"),
    "speeds_layers": ("models.md", "Layers", "Speeds of layers, forward and backward, beside torch.nn"),
    "speeds_models": ("models.md", "Ready models", "Speeds of ready models in training beside torch.nn"),
    "speeds_steps": ("parts.md", "Kernels and steps", "Speeds of normalizations and optimizer steps beside torch"),
}
"""By the names of pictures: the page, the heading above the table, and the title."""
_ROW_HEIGHT, _TOP, _BOTTOM = 40, 60, 30
_MOST_LETTERS = 66


def draw_table(page: str, heading: str, title: str) -> Picture:
    """Bars of the first table below a heading of a page.

    Raises:
        ValueError: there is no such heading or table, or a label is too long for the picture.
    """
    rows = _rows((DOCS / page).read_text(encoding="utf-8"), heading)
    picture = Picture(title, _TOP + _ROW_HEIGHT * len(rows) + _BOTTOM)
    ratios = [float(ratio) for *_, ratio in rows]
    low, high = math.floor(math.log2(min(*ratios, 0.9))), math.ceil(math.log2(max(ratios)))
    left, right = MARGIN, WIDTH - 70

    def across(ratio: float) -> float:
        return left + (right - left) * (math.log2(ratio) - low) / (high - low)

    bottom = _TOP + _ROW_HEIGHT * len(rows) - 6
    for doubling in range(low, high + 1):
        x = across(2.0**doubling)
        picture.path(f"M{x:.1f} {_TOP - 14}V{bottom}", "line" if doubling == 0 else "edge")
        picture.text(x, _TOP - 20, f"{2.0**doubling:g}", "s soft c")
    picture.text(MARGIN, 20, "times as fast as the other side", "b")
    for number, (label, ours, theirs, text) in enumerate(rows):
        ratio = ratios[number]
        y = _TOP + _ROW_HEIGHT * number
        picture.text(MARGIN, y + 8, label, "s")
        start, end = sorted((across(1), across(ratio)))
        picture.box(start, y + 13, max(end - start, 1.5), 11, "blue" if ratio >= 1 else "orange", 2)
        picture.text(WIDTH - MARGIN, y + 23, f"{text}x", "s b e")
        picture.text(WIDTH - MARGIN, y + 8, f"{ours} / {theirs}" if ours else "", "s soft e")
    legend = "blue: faster; orange: slower"
    legend += "; right: burnlike's figure / the other's" if rows[0][1] else ""
    picture.text(MARGIN, bottom + 24, legend, "s soft")
    return picture


def _rows(text: str, heading: str) -> list[tuple[str, str, str, str]]:
    section = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\|(.+)\|$", section[1], re.MULTILINE)[2:] if section else []
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    if not rows:
        raise ValueError(f"there is no table below {heading!r}")
    found = [(label.replace("`", ""), ours, theirs, ratio) for label, ours, theirs, ratio in rows]
    for label, ours, theirs, _ in found:
        if len(label) + len(f"{ours} / {theirs}") > _MOST_LETTERS:
            raise ValueError(f"a label of at most {_MOST_LETTERS} letters with its times fits, got {label!r}")
    return found
