"""Extremes and sorting, in torch."""

from .comparison import TorchInequalityOps
from .extremes import TorchExtremeOps
from .indexing import TorchNumericIndexOps
from .numeric import TorchNumericOps
from .reductions import TorchReductionOps
from .sorting import TorchSortOps


class TorchOrderedOps(
    TorchNumericOps,
    TorchReductionOps,
    TorchExtremeOps,
    TorchSortOps,
    TorchInequalityOps,
    TorchNumericIndexOps,
):
    """Implements `OrderedOps`."""
