"""The typed tensor: `Tensor[B, D, K]`, its kinds and ranks, and the free functions that take it."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
