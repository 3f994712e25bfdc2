"""Speeds of layers, forward and backward, beside torch.nn."""

from .bars import draw_table
from .svg import Picture


def draw() -> Picture:
    return draw_table("models.md", "Layers", "Speeds of layers, forward and backward, beside torch.nn")
