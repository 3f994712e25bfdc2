"""Functions of every kind."""

from typing import Protocol

from .indexing import IndexOps
from .shape import ShapeOps


class BasicOps(ShapeOps, IndexOps, Protocol):
    """What Float, Int and Bool tensors have in common."""
