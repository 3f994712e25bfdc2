"""Layouts of images `[n, c, h, w]` in memory."""

from typing import Any

import torch
from torch import Tensor

from ..._torch_compat.transforms import is_batched_by_autograd


def is_channels_last(x: Tensor) -> bool:
    return x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)


def rows_of(x: Tensor) -> Tensor:
    """An image `[n, c, h, w]` in channels_last as contiguous rows `[n, h, w, c]`."""
    return x.permute(0, 2, 3, 1)


def images_of(rows: Tensor) -> Tensor:
    """Rows `[n, h, w, c]` as an image `[n, c, h, w]`, in channels_last where they are contiguous."""
    return rows.permute(0, 3, 1, 2)


def own_images_of(rows: Tensor) -> Tensor:
    """As `images_of`, as no view of the rows: autograd lets nobody write to a view that one of its functions gives."""
    sizes, strides = ([shape[place] for place in (0, 3, 1, 2)] for shape in (rows.shape, rows.stride()))
    return rows.new_empty(0).set_(rows.untyped_storage(), rows.storage_offset(), sizes, strides)


class _Layout(torch.autograd.Function):
    """A copy of an image in a layout, whose gradient is in the layout before.

    Behind `contiguous()` a gradient would stay in the new one, beside activations and for code that have the other.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: torch.memory_format, before: torch.memory_format) -> Tensor:
        ctx.before = before
        return x.contiguous(memory_format=layout)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        is_many = is_batched_by_autograd(grad)
        return grad if is_many else grad.contiguous(memory_format=ctx.before), None, None


def stock_layout(x: Tensor) -> Tensor:
    return x if x.is_contiguous() else _Layout.apply(x, torch.contiguous_format, torch.channels_last)


def channels_last(x: Tensor) -> Tensor:
    return x if is_channels_last(x) else _Layout.apply(x, torch.channels_last, torch.contiguous_format)
