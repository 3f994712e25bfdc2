"""Records: the states of modules, optimizers and training runs, in files of any format and precision."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
