"""Layers and losses of torch, made of functions whose operators have a translation."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def three(value: Any) -> list[int]:
    """A size for each of three dimensions."""
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * 3 if len(sizes) == 1 else sizes


def windows_3d(
    input: Tensor, kernel: list[int], step: list[int], pad: list[int], gap: list[int], ceil_mode: bool, value: Any
) -> Tensor:
    """The windows of a pool, `[.., D, H, W, places]`; `value` is what stands beside the input."""
    windows = input
    for dim in range(3):
        place, span = dim - 3 + input.ndim, (kernel[dim] - 1) * gap[dim] + 1
        size = windows.shape[place]
        behind = max(
            pad[dim], (_count(size, span, step[dim], pad[dim], ceil_mode) - 1) * step[dim] + span - size - pad[dim]
        )
        windows = F.pad(windows, [0, 0] * (windows.ndim - 1 - place) + [pad[dim], behind], value=value)
        windows = windows.unfold(place, span, step[dim])[..., :: gap[dim]]
    return windows.flatten(-3)


def _count(size: int, span: int, step: int, pad: int, ceil_mode: bool) -> int:
    """The number of windows along a dimension."""
    if not ceil_mode:
        return (size + 2 * pad - span) // step + 1
    count = -(-(size + 2 * pad - span) // step) + 1
    return count - ((count - 1) * step >= size + pad)  # none begins behind the input


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    kernel, pad = three(kernel_size), three(padding)
    step = three(stride) if stride else kernel
    total = windows_3d(input, kernel, step, pad, [1, 1, 1], ceil_mode, 0.0).sum(-1)
    if divisor_override is not None:
        return total / divisor_override
    sizes = torch.ones((), dtype=input.dtype, device=input.device)
    for size, span, by, beside in zip(input.shape[-3:], kernel, step, pad, strict=True):
        first, last = (-beside, size + beside) if count_include_pad else (0, size)
        starts = [place * by - beside for place in range(_count(size, span, by, beside, ceil_mode))]
        counts = [min(start + span, last) - max(start, first) for start in starts]
        sizes = sizes[..., None] * torch.tensor(counts, dtype=input.dtype, device=input.device)
    return total / sizes


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = (input1[..., None, None, :] @ weight)[..., 0, :]  # [.., out, in2]
    result = (rows @ input2[..., None])[..., 0]
    return result if bias is None else result + bias


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """A sum, mean or maximum of rows for each bag, by a table of which index is in which bag."""
    if (input.ndim == 1) == (offsets is None):
        raise ValueError(f"embedding_bag: offsets are for indices of rank 1 alone, got indices of rank {input.ndim}")
    if mode not in ("sum", "mean", "max") or (per_sample_weights is not None and mode != "sum"):
        raise ValueError("embedding_bag: mode has to be sum, mean or max, and per_sample_weights are for sum alone")
    places = torch.arange(input.numel(), device=input.device)
    if offsets is None:
        starts = torch.arange(input.shape[0], device=input.device) * input.shape[1]
    else:
        starts = offsets[:-1] if include_last_offset else offsets
    ends = torch.cat([starts[1:], torch.full_like(starts[:1], input.numel())])
    indices = input.reshape(-1)
    rows = F.embedding(indices, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    within = (places >= starts[:, None]) & (places < ends[:, None])
    if padding_idx is not None:
        within = within & (indices != padding_idx % weight.shape[0])
    if mode == "max":
        lowest = torch.where(within[..., None], rows, -torch.inf).max(1).values if indices.numel() else rows.sum(0)
        return torch.where(within.any(1)[:, None], lowest, 0.0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    shares = within.to(rows.dtype)
    total = shares @ rows
    return total / shares.sum(1, keepdim=True).clamp_min(1.0) if mode == "mean" else total


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Targets of a row are its indices before the first -1; each is to be 1 larger than each class that is none."""
    count = input.shape[-1]
    valid = (target == -1).long().cumsum(-1) == 0
    classes = torch.arange(count, device=input.device)
    is_target = ((target[..., None] == classes) & valid[..., None]).any(-2)
    gaps = 1 - input.gather(-1, target.clamp_min(0))[..., None] + input[..., None, :]
    counted = valid[..., None] & ~is_target[..., None, :]
    return reduced(torch.where(counted, gaps.relu(), 0.0).sum((-2, -1)) / count, size_average, reduce, reduction)


def reduced(loss: Tensor, size_average: bool | None, reduce: bool | None, reduction: str) -> Tensor:
    """The mean, the sum or all, as torch's options say, the older two of them first."""
    kind = reduction_of(size_average, reduce, reduction)
    return loss.mean() if kind == "mean" else loss.sum() if kind == "sum" else loss


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"
