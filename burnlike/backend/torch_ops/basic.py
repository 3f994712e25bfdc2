"""Functions of every kind, in torch."""

from .conversion import TorchConversionOps
from .indexing import TorchIndexOps
from .shape import TorchShapeOps


class TorchBasicOps(TorchShapeOps, TorchIndexOps, TorchConversionOps):
    """Implements `BasicOps`."""
