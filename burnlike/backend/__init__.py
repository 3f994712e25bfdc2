"""Backends: where tensors live, their element types, and the tables of functions that every operation goes through."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
