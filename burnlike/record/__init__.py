"""Records: what a module, an optimizer or a run knows, in files of any precision."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
