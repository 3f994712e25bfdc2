"""Blockwise 8-bit codes of optimizer moments: a scale for each 256 consecutive values, and a power law within them.

A value is `scale * sign(c) * (|c| / 127)^4` with c in -127..127, for moments with a sign (int8), or
`scale * (c / 255)^8` with c in 0..255, for second moments (uint8). The scale is the largest magnitude of the block,
which is kept exactly. The blocks are those of Dettmers et al. 2022 ("8-bit Optimizers via Block-wise Quantization");
a power instead of their table needs only operations that every processor rounds correctly, so codes have the same bits
everywhere. The powers spread the codes over 8 and 19 orders of magnitude.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import DTypeError, ShapeError

BLOCK = 256
"""Values that share a scale."""

# A code is a fourth root of the value with a sign, an eighth root without: square roots of square roots.
_ROOTS = {torch.int8: 2, torch.uint8: 3}
_LEVELS = {torch.int8: 127, torch.uint8: 255}


def scale_count(count: int) -> int:
    """The number of scales of `count` values."""
    return -(-count // BLOCK)


def quantize_blockwise(x: Tensor, signed: bool) -> tuple[Tensor, Tensor]:
    """Code a moment in 8 bits a value.

    The nearest code is chosen on the scale of the codes. A value above 0 is never coded as 0 without a sign, so that a
    second moment does not vanish from a denominator. A block with a value that is not finite becomes NaN.

    Args:
        x: float32, float64, float16 or bfloat16 of any shape; without a sign, negative values count as 0.
        signed: int8 codes for first moments and velocities, or uint8 codes for second moments.

    Returns:
        Codes of x's shape, int8 or uint8, and scales `[ceil(n / 256)]`, float32, of the blocks of x.flatten().
    """
    dtype = torch.int8 if signed else torch.uint8
    codes, scales = encode(x.detach().float().flatten(), dtype, None)
    return codes.view(x.shape), scales


def dequantize_blockwise(codes: Tensor, scales: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The values of codes that `quantize_blockwise` made.

    Args:
        codes: int8 or uint8 of any shape.
        scales: float32 `[ceil(n / 256)]`.
        dtype: of the result; computed in float32.

    Returns:
        The values, of the codes' shape.

    Raises:
        DTypeError: codes are neither int8 nor uint8, or scales not float32.
        ShapeError: another number of scales than codes need.
    """
    if codes.dtype not in _ROOTS or scales.dtype != torch.float32:
        raise DTypeError(
            f"dequantize_blockwise: expected codes of dtype int8 or uint8 and scales of float32, got "
            f"{codes.dtype} and {scales.dtype}"
        )
    if scales.shape != (scale_count(codes.numel()),):
        raise ShapeError(
            f"dequantize_blockwise: expected scales of shape {[scale_count(codes.numel())]}, one for each {BLOCK} of "
            f"{codes.numel()} codes, got {list(scales.shape)}"
        )
    count = codes.numel()
    each = scales[:, None].expand(-1, BLOCK).reshape(-1)[:count]
    return (_decoded(codes.flatten(), codes.dtype) * each).view(codes.shape).to(dtype)


def encode(x: Tensor, dtype: torch.dtype, draws: Tensor | None) -> tuple[Tensor, Tensor]:
    """Codes and scales of float32 values `[n]`: the nearest codes, or by `draws` in [0, 1) one of the two around it.

    The mean over draws is the value.
    """
    count = x.numel()
    scales = _largest_magnitudes(x)
    each = scales[:, None].expand(-1, BLOCK).reshape(-1)[:count]
    is_codable = each.isfinite() & (each > 0)
    y = (x if dtype == torch.uint8 else x.abs()) / torch.where(is_codable, each, 1.0)
    y = torch.where(is_codable, y, 0.0).clamp(0, 1)
    root = y
    for _ in range(_ROOTS[dtype]):
        root = root.sqrt()
    levels = _LEVELS[dtype]
    place = root * levels
    if draws is None:
        codes = (place + 0.5).floor()
    else:
        codes = place.floor().clamp(max=levels - 1)
        below, above = _decoded(codes, dtype), _decoded(codes + 1, dtype)
        codes = codes + (y - below > draws * (above - below))
    if dtype == torch.uint8:
        codes = torch.where((x > 0) & is_codable, codes.clamp(min=1), codes)
    else:
        codes = torch.where(x < 0, -codes, codes)
    return codes.to(dtype), scales


def _largest_magnitudes(x: Tensor) -> Tensor:
    # As integers: there NaN is larger than infinity, which is larger than all numbers.
    padded = F.pad(x.abs(), (0, -x.numel() % BLOCK)).view(-1, BLOCK)
    if not padded.numel():
        return x.new_empty(0)
    return padded.view(torch.int32).amax(dim=1).view(torch.float32)


def _decoded(codes: Tensor, dtype: torch.dtype) -> Tensor:
    """The values for a scale of 1, as float32."""
    # A product with the inverse, as in the kernels: a quotient may differ in the last bit.
    inverse = torch.tensor(1 / _LEVELS[dtype], dtype=torch.float32, device=codes.device)
    root = codes.to(torch.float32) * inverse
    power = root.square()
    for _ in range(_ROOTS[dtype] - 1):
        power = power.square()
    return torch.where(root < 0, -power, power)
