"""`ModuleOps`, in torch."""

from .linalg import TorchLinalgOps
from .signal import TorchSignalOps


class TorchModuleOps(TorchLinalgOps, TorchSignalOps):
    """Implements `ModuleOps`."""
