"""Norms of many tensors at once."""

from collections.abc import Sequence

from torch import Tensor

from .clipping import squares_of


def norms_of(tensors: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm of each tensor, `[len(tensors)]` in their dtype.

    Squares are summed in float64: torch's own norms sum them in float32, and of 100 million equal values lose 4 percent
    on a CPU.

    Args:
        tensors: one or more, of one dtype on one device.
    """
    return squares_of(tensors).sqrt_().to(tensors[0].dtype)
