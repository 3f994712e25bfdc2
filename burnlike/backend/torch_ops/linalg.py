"""`LinalgOps`, in torch."""


class TorchLinalgOps:
    """Implements `LinalgOps`."""
