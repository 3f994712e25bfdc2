"""`PoolOps`, in torch."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..tables.conv import Sizes

_MAX: dict[int, Any] = {3: torch.max_pool1d, 4: torch.max_pool2d, 5: torch.max_pool3d}
_MAX_WITH_INDICES: dict[int, Any] = {3: F.max_pool1d_with_indices, 4: F.max_pool2d_with_indices}
_AVG: dict[int, Any] = {3: torch.avg_pool1d, 4: F.avg_pool2d}


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
            return values, indices.to(dtype)
        padded = _pad(tensor, _spans(kernel, dilation), stride, begin, end, ceil_mode, -torch.inf)
        values, indices = pool(padded, kernel, stride, 0, dilation, False)
        # From the padded input's places to the input's.
        width, padded_width = tensor.shape[-1], padded.shape[-1]
        column = (indices % padded_width - begin[-1]).clamp(0, width - 1)
        if tensor.ndim == 3:
            return values, column.to(dtype)
        row = (indices // padded_width - begin[0]).clamp(0, tensor.shape[2] - 1)
        return values, (row * width + column).to(dtype)

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
        shape = [-1 if it == dim else 1 for it in range(len(kernel))]
        factor = factor * (span / count.clamp(min=1)).to(like.dtype).reshape(shape)
    return factor
