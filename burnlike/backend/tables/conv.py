"""Convolutions and pools."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

Sizes = Sequence[int]
Bias = Tensor | None


class ConvOps(Protocol):
    """Convolutions, on Float tensors. Sizes come one per spatial dimension.

    Functions:
        conv1d: `[batch, in, l], [out, in / groups, k], [out] -> [batch, out, l_out]`.
        conv2d: `[batch, in, h, w], [out, in / groups, kh, kw], [out] -> [batch, out, h_out, w_out]`.
        conv3d: `[batch, in, d, h, w], [out, in / groups, kd, kh, kw], [out] -> [batch, out, d_out, h_out, w_out]`.
        conv2d_weight_backward: The gradient of the weight of `conv2d`, from that of its result; the shape of `weight`.
        conv_transpose: In 1, 2 or 3 dimensions `[batch, in, ..], [in, out / groups, ..], [out] -> [batch, out, ..]`.
        unfold4d: Windows as columns, `[batch, channels, h, w] -> [batch, channels * kh * kw, windows]`.
        fold4d: The sum of windows, `[batch, channels * kh * kw, windows] -> [batch, channels, h, w]`.
        constant_pad: Add `value` around the input: amounts are (begin, end) from the last dimension on; below 0 they
            cut.
    """

    def conv1d(
        self, tensor: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, /
    ) -> Tensor: ...
    def conv2d(
        self, tensor: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, /
    ) -> Tensor: ...
    def conv3d(
        self, tensor: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, /
    ) -> Tensor: ...
    def conv2d_weight_backward(
        self,
        tensor: Tensor,
        weight: Tensor,
        grad: Tensor,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        groups: int,
        /,
    ) -> Tensor: ...
    def conv_transpose(
        self,
        tensor: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Sizes,
        padding: Sizes,
        padding_out: Sizes,
        groups: int,
        dilation: Sizes,
        /,
    ) -> Tensor: ...
    def deform_conv2d(
        self,
        tensor: Tensor,
        offset: Tensor,
        weight: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        offset_groups: int,
        /,
    ) -> Tensor:
        """A convolution that reads at moved places, with zeros outside of the input.

        `offset` is `[batch, 2 * offset_groups * kh * kw, h_out, w_out]` (y, then x), `mask` has half of its channels.
        """

    def unfold4d(self, tensor: Tensor, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes, /) -> Tensor: ...
    def fold4d(
        self, tensor: Tensor, output_size: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes, /
    ) -> Tensor: ...
    def constant_pad(self, tensor: Tensor, amounts: Sizes, value: float, /) -> Tensor: ...


class PoolOps(Protocol):
    """Pools, on Float tensors `[batch, channels, ..]`.

    Sizes come one per spatial dimension. In ceil mode a last window may go over the end; one that would start in the
    padding of the end is left out.

    Functions:
        max_pool: The largest element of each window in 1 or 2 dimensions; padding never is it.
        max_pool_with_indices: Also where it is, as an index into the flat spatial dimensions of the input.
        max_pool2d_backward: The gradient of the input, `[batch, channels, *size]`: that of each result added where it
            came from.
        avg_pool: The average of each window in 1 or 2 dimensions.
        avg_pool2d_backward: The gradient of the input, `[batch, channels, *size]`.
        adaptive_avg_pool1d: Averages over windows that share the input evenly, `[batch, channels, l] -> [batch,
            channels, *size]`.
        adaptive_avg_pool2d: `[batch, channels, h, w] -> [batch, channels, *size]`.
        adaptive_avg_pool3d: `[batch, channels, d, h, w] -> [batch, channels, *size]`.
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
    ) -> Tensor: ...
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
    ) -> tuple[Tensor, Tensor]: ...
    def max_pool2d_backward(self, grad: Tensor, indices: Tensor, size: Sizes, /) -> Tensor: ...
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
    ) -> Tensor: ...
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
    ) -> Tensor: ...
    def adaptive_avg_pool1d(self, tensor: Tensor, size: Sizes, /) -> Tensor: ...
    def adaptive_avg_pool2d(self, tensor: Tensor, size: Sizes, /) -> Tensor: ...
    def adaptive_avg_pool3d(self, tensor: Tensor, size: Sizes, /) -> Tensor: ...
