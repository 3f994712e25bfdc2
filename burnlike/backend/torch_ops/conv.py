"""`ConvOps`, in torch; deformable convolution (Dai et al. 2017; with masks, Zhu et al. 2018) in plain operations."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..tables.conv import Sizes

_TRANSPOSE: dict[int, Any] = {3: torch.conv_transpose1d, 4: torch.conv_transpose2d, 5: torch.conv_transpose3d}


class TorchConvOps:
    """Implements `ConvOps`."""

    conv1d: Any = staticmethod(torch.conv1d)
    conv2d: Any = staticmethod(torch.conv2d)
    conv3d: Any = staticmethod(torch.conv3d)
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
        conv = _TRANSPOSE[tensor.ndim]
        if all(out < max(step, gap) for out, step, gap in zip(padding_out, stride, dilation, strict=True)):
            return conv(tensor, weight, bias, stride, padding, padding_out, groups, dilation)
        # torch refuses larger values of padding_out; what lies beyond every window is the bias alone.
        whole = conv(tensor, weight, None, stride, 0, 0, groups, dilation)
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
    """Where each tap reads if nothing is moved: `[kh * kw, h_out, w_out]`, along one dimension."""
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
