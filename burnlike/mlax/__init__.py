"""MLAX's module semantics: attributes are Parameter handles, modules can be filtered, partitioned and combined.

The functions work on any `nn.Module`; `Module` has them as methods.
"""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
