"""Slices, gather and scatter, masks and comparison, in torch."""


class TorchIndexOps:
    """Implements `IndexOps`."""
