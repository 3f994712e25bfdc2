"""Weights in blocks of 4 bits, as the format GGUF has them under the name Q4_K, which the package gguf only reads.

256 values of a row are a block of 8 parts. In a part x = scale * q - least, with q of 0 to 15; scales and leasts of a
part are whole numbers of 6 bits, times a float16 of the block. See `block_q4_K` of ggml for the order of the bytes.
"""

from typing import Any

import torch
from torch import Tensor

BLOCK = 256
_PART, _MOST, _MOST_SCALE = 32, 15, 63
_STRETCHES = [1 + 0.02 * step for step in range(-5, 6)]
"""Of the range of a part's values, to look for the scale with the least error: a shorter range cuts values off."""
_ROWS = 4096
"""Blocks that are rounded at once, which bounds the memory."""


def q4_k(weight: Tensor) -> Any:
    """The rows of a matrix in blocks of 4 bits.

    Args:
        weight: float32 `[rows, columns]`; the number of columns is a multiple of `BLOCK`.

    Returns:
        numpy's uint8 `[rows, columns / 256 * 144]`.
    """
    parts = weight.reshape(-1, BLOCK // _PART, _PART)
    return torch.cat([_rounded(it) for it in parts.split(_ROWS)]).reshape(weight.shape[0], -1).numpy()


def _rounded(x: Tensor) -> Tensor:
    scales, leasts = _fitted(x)
    block_scale = (scales.amax(1) / _MOST_SCALE).half()
    block_least = (leasts.amax(1) / _MOST_SCALE).half()
    scale_numbers, least_numbers = _numbers(scales, block_scale), _numbers(leasts, block_least)
    scales = (block_scale.float()[:, None] * scale_numbers)[..., None]
    leasts = (block_least.float()[:, None] * least_numbers)[..., None]
    values = torch.where(scales > 0, (x + leasts) / scales, 0.0).round().clamp(0, _MOST).to(torch.uint8)
    first, second = values[:, 0::2], values[:, 1::2]  # in the low and the high bits of the same bytes
    floats = torch.stack((block_scale, block_least), 1).view(torch.uint8)
    return torch.cat((floats, _packed(scale_numbers, least_numbers), (first | second << 4).flatten(1)), 1)


def _fitted(x: Tensor) -> tuple[Tensor, Tensor]:
    """The scale and the least value (as a positive number) of each part, by least squares after a search."""
    least = x.amin(2, keepdim=True).clamp(max=0)
    width = x.amax(2, keepdim=True) - least
    best = [width / _MOST, -least, torch.full_like(width, torch.inf)]
    for stretch in _STRETCHES:
        q = torch.where(width > 0, (x - least) * (_MOST / stretch) / width, 0.0).round().clamp(0, _MOST)
        # x = a q - b: the sums of a line's fit.
        mean_q, mean_x = q.mean(2, keepdim=True), x.mean(2, keepdim=True)
        spread = (q - mean_q).square().sum(2, keepdim=True)
        slope = torch.where(spread > 0, ((q - mean_q) * (x - mean_x)).sum(2, keepdim=True) / spread, 0.0)
        slope, shift = slope.clamp(min=0), slope * mean_q - mean_x
        through_zero = (q * x).sum(2, keepdim=True) / q.square().sum(2, keepdim=True).clamp(min=1)
        slope, shift = torch.where(shift < 0, through_zero.clamp(min=0), slope), shift.clamp(min=0)
        error = (slope * q - shift - x).square().sum(2, keepdim=True)
        is_better = error < best[2]
        best = [torch.where(is_better, new, old) for new, old in zip((slope, shift, error), best, strict=True)]
    return best[0].squeeze(2), best[1].squeeze(2)


def _numbers(values: Tensor, unit: Tensor) -> Tensor:
    unit = unit.float()[:, None]
    return torch.where(unit > 0, values / unit, 0.0).round().clamp(0, _MOST_SCALE).to(torch.uint8)


def _packed(scales: Tensor, leasts: Tensor) -> Tensor:
    """Two times 8 numbers of 6 bits in 12 bytes."""
    low, high = slice(0, 4), slice(4, 8)
    halves = (scales[:, high] & 15) | (leasts[:, high] & 15) << 4
    return torch.cat([it[:, low] | it[:, high] >> 4 << 6 for it in (scales, leasts)] + [halves], 1)
