"""Speeds of saving and loading beside safetensors and torch."""

from .bars import draw_table
from .svg import Picture


def draw() -> Picture:
    return draw_table("parts.md", "Files", "Speeds of saving and loading beside safetensors and torch")
