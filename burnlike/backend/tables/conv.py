"""Convolutions and pools; in torch deformable ones (Dai et al. 2017; Zhu et al. 2018) in plain operations."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ...ops import convolution
from .creation import as_indices

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
        ...

    def unfold4d(self, tensor: Tensor, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes, /) -> Tensor: ...
    def fold4d(
        self, tensor: Tensor, output_size: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes, /
    ) -> Tensor: ...
    def constant_pad(self, tensor: Tensor, amounts: Sizes, value: float, /) -> Tensor: ...


class TorchConvOps:
    """Implements `ConvOps`."""

    conv1d: Any = staticmethod(convolution)
    conv2d: Any = staticmethod(convolution)
    conv3d: Any = staticmethod(convolution)
    unfold4d: Any = staticmethod(F.unfold)
    fold4d: Any = staticmethod(F.fold)
    constant_pad: Any = staticmethod(torch.constant_pad_nd)

    @staticmethod
    def conv2d_weight_backward(
        tensor: Tensor, weight: Tensor, grad: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, /
    ) -> Tensor:
        return torch.ops.aten.convolution_backward(
            grad, tensor, weight, None, stride, padding, dilation, False, [0, 0], groups, (False, True, False)
        )[1]

    @staticmethod
    def conv_transpose(
        tensor: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Sizes,
        padding: Sizes,
        padding_out: Sizes,
        groups: int,
        dilation: Sizes,
        /,
    ) -> Tensor:
        if all(out < max(step, gap) for out, step, gap in zip(padding_out, stride, dilation, strict=True)):
            return convolution(tensor, weight, bias, stride, padding, dilation, groups, padding_out)
        # torch refuses larger values of padding_out; what lies beyond every window is the bias alone.
        none = (0,) * (tensor.ndim - 2)
        whole = convolution(tensor, weight, None, stride, none, dilation, groups, none)
        amounts = [
            it for cut, out in zip(reversed(padding), reversed(padding_out), strict=True) for it in (-cut, out - cut)
        ]
        cropped = torch.constant_pad_nd(whole, amounts)
        return cropped if bias is None else cropped + bias.reshape(-1, *[1] * (tensor.ndim - 2))

    @staticmethod
    def deform_conv2d(
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
        # The moved windows as columns, then one matrix product for each weight group.
        batch, channels = tensor.shape[:2]
        channels_out, channels_in, *kernel = weight.shape
        out_size = offset.shape[2:]
        taps = kernel[0] * kernel[1]
        groups = channels // channels_in
        moves = offset.reshape(batch, offset_groups, taps, 2, *out_size)
        row = moves[:, :, :, 0] + _places(0, kernel, out_size, stride, padding, dilation, offset)
        column = moves[:, :, :, 1] + _places(1, kernel, out_size, stride, padding, dilation, offset)
        grouped = tensor.reshape(batch, offset_groups, channels // offset_groups, *tensor.shape[2:])
        columns = _sample(grouped, row, column)
        if mask is not None:
            columns = columns * mask.reshape(batch, offset_groups, 1, taps, *out_size)
        columns = columns.reshape(batch, groups, channels_in * taps, out_size[0] * out_size[1])
        out = weight.reshape(groups, channels_out // groups, channels_in * taps) @ columns
        out = out.reshape(batch, channels_out, *out_size)
        return out if bias is None else out + bias.reshape(-1, 1, 1)


def _places(
    dim: int, kernel: Sizes, out_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, like: Tensor
) -> Tensor:
    """The place that each tap reads if nothing is moved: `[kh * kw, h_out, w_out]`, along one dimension."""
    taps = torch.arange(kernel[dim], device=like.device, dtype=like.dtype) * dilation[dim] - padding[dim]
    starts = torch.arange(out_size[dim], device=like.device, dtype=like.dtype) * stride[dim]
    if dim == 0:
        places = taps[:, None, None, None] + starts[None, None, :, None]
    else:
        places = taps[None, :, None, None] + starts[None, None, None, :]
    return places.expand(*kernel, *out_size).reshape(-1, *out_size)


def _sample(tensor: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Bilinear values, 0 outside: `[batch, g, c, h, w]` at `[batch, g, taps, ..]` gives `[batch, g, c, taps, ..]`."""
    height, width = tensor.shape[3:]
    flat = tensor.flatten(3)
    top, left = row.detach().floor(), column.detach().floor()
    total: Tensor | None = None
    for y, weight_y in ((top, top + 1 - row), (top + 1, row - top)):
        for x, weight_x in ((left, left + 1 - column), (left + 1, column - left)):
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            index = y.clamp(0, height - 1).long() * width + x.clamp(0, width - 1).long()
            index = index.flatten(2).unsqueeze(2).expand(-1, -1, flat.shape[2], -1)
            weight = torch.where(inside, weight_y * weight_x, 0.0).unsqueeze(2)
            value = flat.gather(3, index).reshape(*flat.shape[:3], *row.shape[2:]) * weight
            total = value if total is None else total + value
    assert total is not None
    return total


_MAX: dict[int, Any] = {3: torch.max_pool1d, 4: torch.max_pool2d, 5: torch.max_pool3d}


_MAX_WITH_INDICES: dict[int, Any] = {3: F.max_pool1d_with_indices, 4: F.max_pool2d_with_indices}


_AVG: dict[int, Any] = {3: torch.avg_pool1d, 4: F.avg_pool2d}


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


class TorchPoolOps:
    """Implements `PoolOps`. torch takes equal padding up to half a window; other padding is added before."""

    adaptive_avg_pool1d: Any = staticmethod(torch.adaptive_avg_pool1d)
    adaptive_avg_pool2d: Any = staticmethod(F.adaptive_avg_pool2d)
    adaptive_avg_pool3d: Any = staticmethod(F.adaptive_avg_pool3d)

    @staticmethod
    def max_pool(
        tensor: Tensor, kernel: Sizes, stride: Sizes, begin: Sizes, end: Sizes, dilation: Sizes, ceil_mode: bool, /
    ) -> Tensor:
        pool = _MAX[tensor.ndim]
        if _torch_takes(kernel, begin, end):
            return pool(tensor, kernel, stride, begin, dilation, ceil_mode)
        spans = _spans(kernel, dilation)
        padded = _pad(tensor, spans, stride, begin, end, ceil_mode, -torch.inf)
        return pool(padded, kernel, stride, 0, dilation, False)

    @staticmethod
    def max_pool_with_indices(
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
        pool = _MAX_WITH_INDICES[tensor.ndim]
        if _torch_takes(kernel, begin, end):
            values, indices = pool(tensor, kernel, stride, begin, dilation, ceil_mode)
            return values, as_indices(indices, tensor.shape[2:].numel(), dtype)
        padded = _pad(tensor, _spans(kernel, dilation), stride, begin, end, ceil_mode, -torch.inf)
        values, indices = pool(padded, kernel, stride, 0, dilation, False)
        # From the padded input's places to the input's.
        width, padded_width = tensor.shape[-1], padded.shape[-1]
        column = (indices % padded_width - begin[-1]).clamp(0, width - 1)
        if tensor.ndim == 3:
            return values, as_indices(column, width, dtype)
        row = (indices // padded_width - begin[0]).clamp(0, tensor.shape[2] - 1)
        return values, as_indices(row * width + column, tensor.shape[2:].numel(), dtype)

    @staticmethod
    def max_pool2d_backward(grad: Tensor, indices: Tensor, size: Sizes, /) -> Tensor:
        zeros = grad.new_zeros(*grad.shape[:2], size[0] * size[1])
        return zeros.scatter_add(2, indices.flatten(2), grad.flatten(2)).reshape(*grad.shape[:2], *size)

    @staticmethod
    def avg_pool(
        tensor: Tensor,
        kernel: Sizes,
        stride: Sizes,
        begin: Sizes,
        end: Sizes,
        count_include_pad: bool,
        ceil_mode: bool,
        /,
    ) -> Tensor:
        if _torch_takes(kernel, begin, end):
            return _AVG[tensor.ndim](tensor, kernel, stride, begin, ceil_mode, count_include_pad)
        padded = _pad(tensor, kernel, stride, begin, end, ceil_mode, 0.0)
        means = _AVG[tensor.ndim](padded, kernel, stride)
        counts = _counts(tensor, kernel, stride, begin, end, means.shape[2:], tensor.shape[2:], count_include_pad)
        return means * counts

    @staticmethod
    def avg_pool2d_backward(
        grad: Tensor, kernel: Sizes, stride: Sizes, begin: Sizes, end: Sizes, count_include_pad: bool, size: Sizes, /
    ) -> Tensor:
        out_size = grad.shape[2:]
        share = grad * _counts(grad, kernel, stride, begin, end, out_size, size, count_include_pad)
        window = grad.new_full((1, 1, *kernel), 1.0 / (kernel[0] * kernel[1]))
        spread = torch.conv_transpose2d(share.reshape(-1, 1, *out_size), window, None, stride)
        amounts = [amount for dim in (1, 0) for amount in (-begin[dim], size[dim] + begin[dim] - spread.shape[2 + dim])]
        return torch.constant_pad_nd(spread, amounts).reshape(*grad.shape[:2], *size)


def _torch_takes(kernel: Sizes, begin: Sizes, end: Sizes) -> bool:
    if begin != end:
        return False
    for pad, size in zip(begin, kernel, strict=True):  # noqa: SIM110 (a generator would take longer than the pool)
        if 2 * pad > size:
            return False
    return True


def _spans(kernel: Sizes, dilation: Sizes) -> list[int]:
    return [(size - 1) * gap + 1 for size, gap in zip(kernel, dilation, strict=True)]


def _pad(
    tensor: Tensor, spans: Sizes, stride: Sizes, begin: Sizes, end: Sizes, ceil_mode: bool, value: float
) -> Tensor:
    """The input with padding, so long that the windows exactly fill it."""
    amounts: list[int] = []
    for size, span, step, before, after in reversed(
        list(zip(tensor.shape[2:], spans, stride, begin, end, strict=True))
    ):
        free = before + size + after - span
        windows = (free + step - 1 if ceil_mode else free) // step + 1
        if ceil_mode and (windows - 1) * step >= before + size:
            windows -= 1
        amounts += [before, (windows - 1) * step + span - before - size]
    return torch.constant_pad_nd(tensor, amounts, value)


def _counts(
    like: Tensor,
    kernel: Sizes,
    stride: Sizes,
    begin: Sizes,
    end: Sizes,
    out_size: Sizes,
    size: Sizes,
    count_include_pad: bool,
) -> Tensor:
    """Elements of a window over those that count in its average: what a mean over whole windows is multiplied by."""
    factor = like.new_ones(())
    for dim, span in enumerate(kernel):
        first = 0 if count_include_pad else begin[dim]
        last = begin[dim] + size[dim] + (end[dim] if count_include_pad else 0)
        starts = torch.arange(out_size[dim], device=like.device) * stride[dim]
        count = (starts + span).clamp(max=last) - starts.clamp(min=first)
        shape = [-1 if index == dim else 1 for index in range(len(kernel))]
        factor = factor * (span / count.clamp(min=1)).to(like.dtype).reshape(shape)
    return factor
