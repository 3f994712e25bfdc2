"""Datasets, batchers and a seeded data loader whose position can be saved."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
