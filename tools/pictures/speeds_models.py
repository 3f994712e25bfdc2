"""Speeds of ready models in training beside torch.nn."""

from .bars import draw_table
from .svg import Picture


def draw() -> Picture:
    return draw_table("models.md", "Ready models", "Speeds of ready models in training beside torch.nn")
