"""`SignalOps`, in torch."""


class TorchSignalOps:
    """Implements `SignalOps`."""
