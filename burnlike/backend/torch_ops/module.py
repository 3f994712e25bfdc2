"""`ModuleOps`, in torch."""

from .conv import TorchConvOps
from .grid import TorchGridOps
from .layers import TorchLayerOps
from .linalg import TorchLinalgOps
from .pool import TorchPoolOps
from .signal import TorchSignalOps


class TorchModuleOps(TorchConvOps, TorchPoolOps, TorchLayerOps, TorchLinalgOps, TorchSignalOps, TorchGridOps):
    """Implements `ModuleOps`."""
