"""Convolutions, pools, attention and what else layers are made of."""

from typing import Protocol

from .linalg import LinalgOps
from .signal import SignalOps


class ModuleOps(LinalgOps, SignalOps, Protocol):
    """Convolutions, pools, attention and what else layers are made of, on Float tensors."""
