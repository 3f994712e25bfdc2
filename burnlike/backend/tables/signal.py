"""Fourier transforms and windows."""

from typing import Protocol


class SignalOps(Protocol):
    """Fourier transforms and windows, on Float tensors."""
