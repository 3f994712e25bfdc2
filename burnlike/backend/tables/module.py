"""Convolutions, pools, attention and other functions of layers."""

from typing import Protocol

from .conv import ConvOps
from .grid import GridOps
from .layers import LayerOps
from .linalg import LinalgOps
from .pool import PoolOps
from .signal import SignalOps


class ModuleOps(ConvOps, PoolOps, LayerOps, LinalgOps, SignalOps, GridOps, Protocol):
    """Convolutions, pools, attention and what else layers are made of, on Float tensors."""
