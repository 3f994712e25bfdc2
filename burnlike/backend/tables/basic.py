"""Functions of every kind."""

from typing import Protocol

from .comparison import ComparisonOps
from .conversion import ConversionOps
from .creation import CreationOps
from .indexing import IndexOps
from .shape import ShapeOps


class BasicOps(CreationOps, ShapeOps, IndexOps, ConversionOps, ComparisonOps, Protocol):
    """Functions that Float, Int and Bool tensors share."""
