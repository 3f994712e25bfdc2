"""Functions of every kind: slices, gather and scatter, masks, comparison."""

from typing import Protocol


class IndexOps(Protocol):
    """Indexing, masks and comparison, of Float, Int and Bool tensors."""
