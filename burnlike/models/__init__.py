"""Ready models, each with its Config, and the weights that other libraries have for them."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
