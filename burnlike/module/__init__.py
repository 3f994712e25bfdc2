"""Modules and the identity of their parameters, over any `torch.nn.Module`."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
