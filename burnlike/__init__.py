"""Burn's semantics on PyTorch. `import burnlike as bl` loads nothing heavy: parts are imported at first use."""

from ._lazy import attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
