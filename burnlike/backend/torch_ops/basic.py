"""Functions of every kind, in torch."""

from .comparison import TorchComparisonOps
from .conversion import TorchConversionOps
from .indexing import TorchIndexOps
from .shape import TorchShapeOps


class TorchBasicOps(TorchShapeOps, TorchIndexOps, TorchConversionOps, TorchComparisonOps):
    """Implements `BasicOps`."""
