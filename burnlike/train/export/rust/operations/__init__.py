"""Functions of torch as Burn's: a row for each operation of a graph that has a counterpart."""

from . import elements, layers, reductions, shapes
from .op import OPERATIONS, Op, Several, expression_of

__all__ = ["OPERATIONS", "Op", "Several", "elements", "expression_of", "layers", "reductions", "shapes"]
