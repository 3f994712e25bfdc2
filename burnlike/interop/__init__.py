"""Interfaces of other libraries: optimizers as in torch.optim, and the states of torch's optimizers."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
