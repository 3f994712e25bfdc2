"""Which arguments a native op takes: one predicate for each op. For all others the stock function is called.

Each lists what the op takes, so that anything unknown, such as a subclass of Tensor, goes to the stock function. The
tests compare both over a grid of arguments, errors included.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...ops._arguments import autocast_dtype, for_products
from ...ops._function import is_recorded

_TYPES = (Tensor, nn.Parameter)
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def takes(x: Any, *weights: Any) -> bool:
    """Whether a native op computes with `x` and these weights; else the stock function is to be called.

    Tensors are torch's own, not subclasses (DTensor, nested and quantized ones) or of other layouts, and on one device.
    Programs that are exported or traced get stock functions, which every tool knows.
    """
    if not _is_ordinary(x) or x.dtype not in _DTYPES or not (x.is_cpu or x.is_cuda or x.is_meta):
        return False
    for weight in weights:
        if weight is not None and not (
            _is_ordinary(weight) and weight.dtype in (x.dtype, torch.float32) and weight.device == x.device
        ):
            return False
    return not is_recorded()


def _is_ordinary(tensor: Any) -> bool:
    return type(tensor) in _TYPES and tensor.layout is torch.strided and not tensor.is_nested


def takes_norm(x: Any, normalized_shape: Any, weight: Any, bias: Any = None) -> bool:
    """Whether `ops.layer_norm` and `ops.rms_norm` compute what torch's functions do."""
    if not isinstance(normalized_shape, Sequence) or len(normalized_shape) != 1 or weight is None:
        return False
    if not takes(x, weight, bias) or x.dim() == 0 or x.shape[-1] != normalized_shape[0]:
        return False
    # Weights in float32 beside 16 bits are for torch's CPU kernels alone; on a GPU autocast changes the result's dtype.
    if weight.dtype != x.dtype and (x.dtype == torch.float64 or not x.is_cpu):
        return False
    if weight.shape != (x.shape[-1],) or _is_changed_by_autocast(x):
        return False
    return bias is None or (bias.dtype == weight.dtype and bias.shape == weight.shape)


def _is_changed_by_autocast(x: Tensor) -> bool:
    return not x.is_cpu and x.dtype.itemsize == 2 and autocast_dtype(x) is not None


def takes_cross_entropy(logits: Any, targets: Any, reduction: Any, label_smoothing: Any) -> bool:
    """Whether `ops.cross_entropy` computes the loss of these, without weights of classes."""
    return (
        takes(logits)
        and _is_ordinary(targets)
        and targets.dtype == torch.int64
        and targets.device == logits.device
        and logits.dim() == 2
        and targets.shape == logits.shape[:1]
        and logits.shape[1] > 0
        and reduction in ("none", "mean", "sum")
        and 0.0 <= label_smoothing <= 1.0
    )


def takes_attention(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: float | None, grouped: bool
) -> bool:
    """Whether `ops.attention` computes what torch's does, in 16 bits on a CPU; for all else it would call torch's."""
    if dropout != 0 or not takes(query) or not query.is_cpu:
        return False
    if not all(_is_ordinary(it) and it.device == query.device and it.dim() == 4 for it in (query, key, value)):
        return False
    query, key, value = for_products(query), for_products(key), for_products(value)
    if query.dtype.itemsize != 2 or not query.dtype == key.dtype == value.dtype:
        return False
    batch, heads, queries, width = query.shape
    has_heads = key.shape[1] == heads or (grouped and key.shape[1] > 0 and heads % key.shape[1] == 0)
    if key.shape != value.shape or (key.shape[0], key.shape[3]) != (batch, width) or not has_heads:
        return False
    if scale is not None and not 0.0 < scale < float("inf"):
        return False
    return mask is None or (not causal and _takes_mask(query.dtype, mask, (batch, heads, queries, key.shape[2])))


def _takes_mask(dtype: torch.dtype, mask: Any, scores: tuple[int, ...]) -> bool:
    if not _is_ordinary(mask) or not mask.is_cpu or not 2 <= mask.dim() <= 4:
        return False
    sizes = zip(reversed(mask.shape), reversed(scores), strict=False)
    return for_products(mask).dtype in (dtype, torch.bool) and all(size in (1, full) for size, full in sizes)


def takes_rotary(query: Any, key: Any, cos: Any, sin: Any, unsqueeze_dim: Any) -> bool:
    """Whether `ops.rotary` turns what transformers' functions do, by whole tables of `[batch, sequence, d]`."""
    if unsqueeze_dim not in (1, 2) or not takes(query, key, cos, sin):
        return False
    if query.dtype != key.dtype or cos.dtype != sin.dtype or cos.shape != sin.shape:
        return False
    if (query.dim(), key.dim(), cos.dim()) != (4, 4, 3) or (cos.requires_grad or sin.requires_grad):
        return False
    if query.dtype.itemsize == 2 and autocast_dtype(query) not in (None, query.dtype):
        return False  # torch joins halves in autocast's dtype, or not at all
    batch, length, width = query.shape[0], query.shape[3 - unsqueeze_dim], query.shape[3]
    return (
        (key.shape[0], key.shape[3 - unsqueeze_dim], key.shape[3]) == (batch, length, width)
        and cos.shape[1:] == (length, width)
        and cos.shape[0] in (1, batch)
        and width > 0
        and width % 2 == 0
    )
