"""`ActivationOps`, in torch."""


class TorchActivationOps:
    """Implements `ActivationOps`."""
