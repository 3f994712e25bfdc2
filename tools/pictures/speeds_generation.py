"""Speeds of generation beside transformers and ONNX Runtime."""

from .bars import draw_table
from .svg import Picture


def draw() -> Picture:
    return draw_table("models.md", "Generation", "Speeds of generation beside transformers and ONNX Runtime")
