"""`ModuleOps`, in torch."""

from .conv import TorchConvOps
from .layers import TorchLayerOps
from .linalg import TorchLinalgOps
from .pool import TorchPoolOps
from .signal import TorchSignalOps


class TorchModuleOps(TorchConvOps, TorchPoolOps, TorchLayerOps, TorchLinalgOps, TorchSignalOps):
    """Implements `ModuleOps`."""
