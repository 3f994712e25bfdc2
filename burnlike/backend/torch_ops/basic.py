"""Functions of every kind, in torch."""

from .comparison import TorchComparisonOps
from .conversion import TorchConversionOps
from .creation import TorchCreationOps
from .indexing import TorchIndexOps
from .shape import TorchShapeOps


class TorchBasicOps(TorchCreationOps, TorchShapeOps, TorchIndexOps, TorchConversionOps, TorchComparisonOps):
    """Implements `BasicOps`."""
