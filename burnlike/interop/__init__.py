"""Meeting points with other libraries: optimizers as torch.optim has them, and torch's optimizer states."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
