"""L-BFGS, whose steps evaluate the loss several times."""

from ..._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
