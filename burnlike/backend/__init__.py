"""Backends: the device of tensors, their element types, and the tables of functions that compute every operation."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
