"""Dropout with torch's own draws, number for number, made many at a time.

On most CPUs torch takes one number after the other from its generator. The native op gives the same ones and leaves the
generator in the same state; whether it does on this machine, where torch may call Intel's library instead, is tried
before it is used. All else of dropout stays torch's: the product, its gradient and what is saved for it.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ... import ops
from ..._torch_compat.fake_tensors import is_fake, with_values
from ...ops._arguments import for_products
from ...ops._function import is_transformed
from ...ops._library import WITHOUT_NATIVE
from . import functions
from .functions import takes, takes_attention

_LEAST = 512
"""Values for which torch takes about as long as the op with the generator's state."""


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`F.dropout`."""
    if inplace or training is not True or not takes_dropout(input, p):
        return F.dropout(input, p, training, inplace)
    return dropped(input, p)


def dropped(x: Tensor, p: float) -> Tensor:
    """Dropout of what `takes_dropout` takes."""
    return x * _noise(x, p)


def takes_dropout(x: Any, p: Any) -> bool:
    """Whether the op draws what torch's dropout would for this tensor and probability."""
    if not isinstance(p, float) or not 0.0 < p < 1.0 or torch.compiler.is_compiling() or not takes(x):
        return False
    is_here = x.is_cpu and not is_fake(x) and x.is_contiguous() and x.numel() >= _LEAST
    return is_here and not is_transformed() and draws_as_torch()


def _noise(x: Tensor, p: float) -> Tensor:
    return ops.bernoulli_noise_(torch.empty_like(x), 1 - p, _scale(x.dtype, p))


@cache
def _scale(dtype: torch.dtype, p: float) -> float:
    with with_values(), torch.inference_mode(False):
        return torch.ones(1, dtype=dtype, device="cpu").div_(1 - p).item()


@cache
def draws_as_torch() -> bool:
    """Whether the op's numbers are those of torch's `bernoulli_` on this machine, and leave the same state."""
    if "cpu" in WITHOUT_NATIVE:
        return False
    generator = torch.default_generator
    before = generator.get_state()
    try:
        with with_values(), torch.device("cpu"), torch.inference_mode(False):
            return all(_is_same(seed, odd) for seed in (0, 12345) for odd in (0, 1, 3))
    finally:
        generator.set_state(before)


def _is_same(seed: int, odd: int) -> bool:
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for p in (0.1, 0.5, 0.9):
            found: list[tuple[Tensor, Tensor]] = []
            for is_own in (False, True):
                torch.default_generator.manual_seed(seed)
                torch.randint(0, 3, (odd,), dtype=torch.int64)
                noise = torch.empty(1500, dtype=dtype)
                if is_own:
                    ops.bernoulli_noise_(noise, 1 - p, _scale(dtype, p))
                else:
                    noise.bernoulli_(1 - p).div_(1 - p)
                found.append((noise, torch.default_generator.get_state()))
            if not all(torch.equal(one, other) for one, other in zip(*found, strict=True)):
                return False
    return True


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`F.scaled_dot_product_attention`, also with dropout."""
    if dropout_p and _takes_dropped(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
        mask = attn_mask
        if mask is not None and mask.dtype != torch.bool:
            mask = for_products(mask)
        query, key, value = for_products(query), for_products(key), for_products(value)
        with torch.autocast("cpu", enabled=False):
            dtype = torch.promote_types(query.dtype, torch.float32)
            weights = torch.empty(*query.shape[:-1], key.shape[-2], dtype=dtype)
            noise = _noise(weights, dropout_p)
            return ops.attention(query, key, value, mask, is_causal, scale, noise=noise)
    return functions.attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _takes_dropped(
    query: Any, key: Any, value: Any, mask: Any, p: Any, causal: bool, scale: float | None, grouped: bool
) -> bool:
    """Beside what attention takes without dropout: whether there is a square to be causal over, and enough to draw."""
    if not isinstance(p, float) or not 0.0 < p < 1.0 or torch.compiler.is_compiling() or is_fake(query):
        return False
    if not takes_attention(query, key, value, mask, 0.0, causal, scale, grouped, any_dtype=True):
        return False
    rows, columns = query.shape[-2], key.shape[-2]
    if (causal and rows != columns) or query.shape[:-1].numel() * columns < _LEAST:
        return False
    is_wide = for_products(query).dtype.itemsize > 2 or not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    return is_wide and not is_transformed() and draws_as_torch()
