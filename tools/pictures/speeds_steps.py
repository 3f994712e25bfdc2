"""Speeds of normalizations and optimizer steps beside torch."""

from .bars import draw_table
from .svg import Picture


def draw() -> Picture:
    return draw_table("parts.md", "Kernels and steps", "Speeds of normalizations and optimizer steps beside torch")
