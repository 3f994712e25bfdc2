"""Layers, each with its Config."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
