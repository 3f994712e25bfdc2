"""Functions of torch as Burn's: a row for each operation of a graph that has a counterpart."""

from . import arithmetic, choices, layers, reductions, shapes
from .table import OPERATIONS, Several

__all__ = ["OPERATIONS", "Several", "arithmetic", "choices", "layers", "reductions", "shapes"]
