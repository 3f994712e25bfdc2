"""Optimizers whose state follows parameters by id, gradients, clipping and learning rate schedules."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
