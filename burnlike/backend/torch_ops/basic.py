"""Functions of every kind, in torch."""

from .indexing import TorchIndexOps
from .shape import TorchShapeOps


class TorchBasicOps(TorchShapeOps, TorchIndexOps):
    """Implements `BasicOps`."""
