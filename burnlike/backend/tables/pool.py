"""Pools."""

# pyright: reportReturnType=false

from typing import Protocol

import torch
from torch import Tensor

from .conv import Sizes


class PoolOps(Protocol):
    """Pools, on Float tensors `[batch, channels, ..]`.

    Sizes come one per spatial dimension. In ceil mode a last window may go over the end; one that would start in the
    padding of the end is left out.
    """

    def max_pool(
        self,
        tensor: Tensor,
        kernel: Sizes,
        stride: Sizes,
        begin: Sizes,
        end: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
        /,
    ) -> Tensor:
        """The largest element of each window in 1 or 2 dimensions; padding never is it."""

    def max_pool_with_indices(
        self,
        tensor: Tensor,
        kernel: Sizes,
        stride: Sizes,
        begin: Sizes,
        end: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
        dtype: torch.dtype,
        /,
    ) -> tuple[Tensor, Tensor]:
        """Also where it is, as an index into the flat spatial dimensions of the input."""

    def max_pool2d_backward(self, grad: Tensor, indices: Tensor, size: Sizes, /) -> Tensor:
        """The gradient of the input, `[batch, channels, *size]`: that of each result added where it came from."""

    def avg_pool(
        self,
        tensor: Tensor,
        kernel: Sizes,
        stride: Sizes,
        begin: Sizes,
        end: Sizes,
        count_include_pad: bool,
        ceil_mode: bool,
        /,
    ) -> Tensor:
        """The average of each window in 1 or 2 dimensions."""

    def avg_pool2d_backward(
        self,
        grad: Tensor,
        kernel: Sizes,
        stride: Sizes,
        begin: Sizes,
        end: Sizes,
        count_include_pad: bool,
        size: Sizes,
        /,
    ) -> Tensor:
        """The gradient of the input, `[batch, channels, *size]`."""

    def adaptive_avg_pool1d(self, tensor: Tensor, size: Sizes, /) -> Tensor:
        """Averages over windows that share the input evenly, `[batch, channels, l] -> [batch, channels, *size]`."""

    def adaptive_avg_pool2d(self, tensor: Tensor, size: Sizes, /) -> Tensor:
        """`[batch, channels, h, w] -> [batch, channels, *size]`."""

    def adaptive_avg_pool3d(self, tensor: Tensor, size: Sizes, /) -> Tensor:
        """`[batch, channels, d, h, w] -> [batch, channels, *size]`."""
