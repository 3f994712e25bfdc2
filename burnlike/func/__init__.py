"""Transforms of `torch.func` for functions of modules: gradients, vectorization, ensembles, modules as pytrees."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
