"""Decompositions and determinants."""

from typing import Protocol


class LinalgOps(Protocol):
    """Decompositions and determinants, on Float tensors."""
