"""Burn's semantics on PyTorch. `import burnlike as bl` loads nothing heavy: parts are imported at first use."""

from ._lazy import attach
from ._moved import find_moved

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)

find_moved()
