"""Mean and variance of each column of rows, as batch normalization takes them off."""

import torch
from torch import Tensor

from ..errors import ShapeError
from ._arguments import check_tensor
from ._function import call
from ._library import fake, op

_batch_moments = op("batch_moments")


def batch_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each column of x over all its rows, without a derivative; `batch_norm` has it.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU; on other devices it is the reference.

    Returns:
        Two of `[d]` in float32 (float64 for float64): the mean, and the variance divided by the number of rows; both
        are 0 without rows.
    """
    x = x.detach()
    if x.device.type not in ("cpu", "meta") or x.numel() == 0:
        _check_moments(x)
        return batch_moments_reference(x)
    return call("batch_moments", _batch_moments, batch_moments_reference, _check_moments, x)


def batch_moments_reference(x: Tensor) -> tuple[Tensor, Tensor]:
    """The same as `batch_moments` in plain torch, on any device."""
    width = x.shape[-1]
    rows = x.to(torch.promote_types(x.dtype, torch.float32)).reshape(x.numel() // max(width, 1), width)
    count = max(len(rows), 1)
    mean = rows.sum(0) / count
    return mean, (rows - mean).square().sum(0) / count


def _check_moments(x: Tensor) -> None:
    check_tensor("batch_moments", "x", x)
    if x.dim() == 0:
        raise ShapeError("batch_moments: expected x of at least one dimension, got a scalar")


@fake("batch_moments")
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    _check_moments(x)
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.new_empty(x.shape[-1:], dtype=wide), x.new_empty(x.shape[-1:], dtype=wide)
