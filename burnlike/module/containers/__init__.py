"""Lists, tuples, dicts, enums and users' own containers of modules, as parts of a tree."""

from ..._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
