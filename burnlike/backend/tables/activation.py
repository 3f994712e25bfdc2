"""Activation functions."""

from typing import Protocol


class ActivationOps(Protocol):
    """Activation functions, on Float tensors."""
