"""Scaled dot product attention, fast on CPUs in 16 bits.

softmax(scale q k^T + mask) v (Vaswani et al. 2017, eq. 1). In bfloat16 on CPUs that multiply it (AVX-512 BF16) both
passes are made of blocks of scores in float32 that never leave the cache (Dao 2023, "FlashAttention-2"). Elsewhere the
forward pass is torch's, and the backward pass computes the weights again from the logarithms of their sums, in blocks
that torch multiplies in float32 (algorithm 2). With a soft cap or noise, elsewhere, it is made of torch's own steps.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..errors import ArgumentError, ShapeError
from . import half_products
from ._arguments import check_device, check_shape, check_tensor, for_products
from ._divided import are_divided, on_parts
from ._example import Example
from ._function import call, is_recorded, is_transformed, second_derivative
from ._library import autograd, cpu_isa, fake, flops, op
from .bernoulli_noise import draws_now, dropout_noise
from .masked_softmax import masked_softmax

_attention = op("attention")
_attention_backward = op("attention_backward")

_FEWEST_QUERIES = 32
"""Of a head of keys. Torch's forward pass of fewer takes less time: of one a twentieth, as the op packs all keys."""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    soft_cap: float | None = None,
    noise: Tensor | None = None,
) -> Tensor:
    """Attend from each query to the keys, as `torch.nn.functional.scaled_dot_product_attention`.

    The native op runs on CPUs in bfloat16, but for few queries, and where a derivative is asked for; it is
    differentiable any number of times, from the second derivative on in plain torch. Torch's attention runs elsewhere:
    on CUDA, for a mask with a derivative, and for tensors without values. A soft cap and noise are native in bfloat16
    on CPUs that multiply it. Float16 that a CPU can't multiply is converted to float32, and attended in that. A query
    all of whose keys have a large negative mask has the weights that float32 gives it, in both passes; torch's backward
    pass gives each the weight 1 (torch 2.13). With a mask of -inf for all its result is zero.

    Memory: for backward, the arguments, the output and one float32, on processors that multiply bfloat16 two, for each
    query of each head are kept; a bool mask is kept in query's dtype. There, too, each thread packs one head of keys
    with its queries beside some blocks, and the gradients of queries are summed in float32: of one head of keys for
    each thread, or, if there are fewer than 16 heads of keys in all, of up to 16. Elsewhere the backward pass allocates
    for each thread up to 4 bytes for each score of one head of keys, half of it if causal.

    Args:
        query: `[batch, heads, queries, d_head]`, of any float dtype.
        key: `[batch, heads or a divisor, keys, d_head]`, each head for as many heads of the query in a row.
        value: as key.
        mask: broadcast to `[batch, heads, queries, keys]`: bool, False where a key is hidden, or of query's dtype,
            added to the scores.
        causal: whether a query sees only the keys up to its own place; not with a mask.
        scale: of the scores; None for `d_head ** -0.5`.
        soft_cap: scaled scores s become soft_cap * tanh(s / soft_cap), before the mask (Gemma 2, Riviere et al. 2024,
            section 2).
        noise: `[batch, heads, queries, keys]`, float32 (float64 for float64): the weights are multiplied with it. For
            dropout it is 0, or 1 / (1 - p).

    Returns:
        `[batch, heads, queries, d_head]`, in query's dtype.

    Raises:
        ArgumentError: there are both a mask and `causal`, or the soft cap is not above 0.
    """
    if are_divided(query, key, value, mask, noise):
        # A mask of each head is to be divided with them, and so is noise.
        name = "attention" if noise is None and (mask is None or mask.dim() < 3 or mask.shape[-3] == 1) else ""
        return on_parts(name, attention, (query, key, value, mask, causal, scale, soft_cap, noise))
    if soft_cap is not None and soft_cap <= 0.0:
        raise ArgumentError(f"attention: expected soft_cap above 0, got {soft_cap}")
    query, key, value = for_products(query), for_products(key), for_products(value)
    mask = None if mask is None else for_products(mask)
    by_float32, in_steps = _is_by_float32(query), noise is not None or soft_cap is not None
    is_plain = not in_steps and mask is None and query.dim() == 4 and not by_float32
    if not is_plain:
        _check(query, key, value, mask, noise, causal, soft_cap=soft_cap)
    if by_float32:
        query, key, value = (it.float() for it in (query, key, value))
        mask = mask if mask is None or mask.dtype == torch.bool else mask.float()
        return attention_reference(query, key, value, mask, causal, scale, soft_cap, noise).half()
    if _is_faster(query, key, value, mask, in_steps) and _takes_options(query, soft_cap, noise):
        return attention_native(query, key, value, mask, causal, scale, soft_cap, noise)  # it checks what is plain
    if is_plain:
        _check(query, key, value, mask, noise, causal)
    return attention_reference(query, key, value, mask, causal, scale, soft_cap, noise)


def attention_native(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    soft_cap: float | None = None,
    noise: Tensor | None = None,
) -> Tensor:
    """The native op, whatever the dtype: on CPUs, of tensors that have values."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -torch.inf)
        mask = mask.expand(*query.shape[:3], key.shape[2])
    arguments = (query, key, value, mask, noise, causal, scale, soft_cap or 0.0)
    return call("attention", _attention, lambda *them: (_by_reference(*them),), _check, *arguments)[0]


def attention_noise(query: Tensor, key: Tensor, causal: bool, probability: float) -> Tensor | None:
    """The noise of dropout for `attention`, of the numbers that torch's draws; None where that is to be called."""
    sizes = torch.Size((*query.shape[:-1], key.shape[-2]))
    is_plain = type(query) in (Tensor, torch.nn.Parameter) and query.is_cpu
    if not is_plain or not draws_now(sizes.numel(), probability) or (causal and sizes[-1] != sizes[-2]):
        return None
    dtype = for_products(query).dtype
    # torch computes weights of attention in float32, and draws for these, unless it may reduce in 16 bits.
    if dtype.itemsize == 2 and torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed():
        return None
    return dropout_noise(torch.empty(sizes, dtype=torch.promote_types(dtype, torch.float32), device="cpu"), probability)


def attention_reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    soft_cap: float | None = None,
    noise: Tensor | None = None,
) -> Tensor:
    """The same as `attention` by torch's own functions, on any device."""
    if noise is not None or soft_cap is not None:
        # 16 bits are in the dtypes already. Exported programs would show the block, so it is there only if it matters.
        with torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext():
            return _attention_in_steps(query, key, value, mask, causal, scale, soft_cap, noise)
    grouped = bool(query.shape[1] != key.shape[1])
    if query.device.type == "cpu" and query.stride(-1) == 1 and 0 < query.stride(-2) < query.shape[-1]:
        query = query.contiguous()  # of rows that overlap, as windows, torch's kernel reads others (torch 2.13)
    return F.scaled_dot_product_attention(query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=grouped)


class _Scores(torch.autograd.Function):
    """Products of 16-bit queries and keys in float32, with gradients by products in 16 bits."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor) -> Tensor:
        ctx.save_for_backward(query, key)
        return _in_order(query, torch.float32) @ _in_order(key, torch.float32).mT

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        query, key = ctx.saved_tensors
        gradient = gradients[0].to(query.dtype)
        return gradient @ key, gradient.mT @ query


def _in_order(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype, memory_format=torch.contiguous_format)


def _attention_in_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    soft_cap: float | None,
    noise: Tensor | None,
) -> Tensor:
    """As `attention`, as torch computes it with dropout on CPUs: the weights in float32.

    Of 16 bits torch takes the values to float32, too. Where the CPU has fast products of 16 bits, weights and gradients
    are rounded to these before products, as in torch's attention without dropout.
    """
    dtype = query.dtype
    product_dtype = torch.float32 if dtype in half_products.SLOW or is_transformed() else dtype
    product_dtype = torch.promote_types(product_dtype, dtype)
    query, key, value = (_in_order(it, product_dtype) for it in (query, key, value))
    if (repeats := query.shape[1] // key.shape[1]) > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = _Scores.apply(query, key) if product_dtype.itemsize == 2 else query @ key.mT
    assert isinstance(scores, Tensor)
    if soft_cap is not None:
        scores, factor = soft_cap * torch.tanh(scores * (factor / soft_cap)), 1.0
    if causal and scores.shape[-2] != scores.shape[-1]:
        mask, causal = torch.ones_like(scores[0, 0], dtype=torch.bool).tril(), False
    if mask is None:
        weights = masked_softmax(scores, None, factor, causal)
    else:
        scores = torch.where(mask, scores * factor, -torch.inf) if mask.dtype == torch.bool else scores * factor + mask
        blind = (scores == -torch.inf).all(-1, keepdim=True)  # rows of which all is hidden have no weights
        # Filled before, too: the softmax of infinities alone is NaN, and so would be its gradient.
        weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    weights = weights if noise is None else weights * noise
    return (weights.to(product_dtype) @ value).to(dtype)


def _is_by_float32(query: Tensor) -> bool:
    is_slow = query.dtype == torch.float16 and torch.float16 in half_products.SLOW
    return is_slow and query.device.type == "cpu" and not is_recorded()


def _takes_options(query: Tensor, soft_cap: float | None, noise: Tensor | None) -> bool:
    """True if there are kernels with these."""
    if noise is None and soft_cap is None:
        return True
    is_fixed = noise is None or not noise.requires_grad
    return is_fixed and query.dtype == torch.bfloat16 and cpu_isa() == "avx512_bf16"


def _is_faster(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, in_steps: bool) -> bool:
    """True if the native op computes this, or a derivative that there will be, faster than torch does, or its steps."""
    has_derivative = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    return (
        query.device.type == "cpu"
        and (query.dtype == torch.bfloat16 or has_derivative)
        and not (mask is not None and mask.requires_grad)
        and query.numel() > 0
        and key.numel() > 0
        and (has_derivative or in_steps or query.shape[2] * query.shape[1] >= _FEWEST_QUERIES * key.shape[1])
        and not is_recorded()  # a program without a backward pass, which torch's tools take as it is
    )


def _by_reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    noise: Tensor | None,
    causal: bool,
    scale: float,
    soft_cap: float,
) -> Tensor:
    return attention_reference(query, key, value, mask, causal, scale, soft_cap or None, noise)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    noise: Tensor | None,
    causal: bool,
    scale: float = 1.0,
    soft_cap: float | None = None,
) -> None:
    check_tensor("attention", "query", query)
    if query.dim() != 4:
        raise ShapeError(f"attention: expected query of shape [batch, heads, queries, d_head], got {list(query.shape)}")
    for name, tensor in {"key": key, "value": value}.items():
        check_tensor("attention", name, tensor, (query.dtype,), query.device)
    batch, heads, queries, width = query.shape
    if key.dim() != 4 or key.shape[1] == 0 or heads % key.shape[1]:
        raise ShapeError(
            f"attention: expected key of shape [batch, {heads} or a divisor, keys, d_head], got {list(key.shape)}"
        )
    check_shape("attention", "key", key, (batch, key.shape[1], key.shape[2], width))
    check_shape("attention", "value", value, key.shape)
    if noise is not None:
        weights_dtype = torch.promote_types(query.dtype, torch.float32)
        check_tensor("attention", "noise", noise, (weights_dtype,), query.device)
        check_shape("attention", "noise", noise, (batch, heads, queries, key.shape[2]))
    if soft_cap is not None and not 0.0 <= soft_cap < float("inf"):
        raise ArgumentError(f"attention: expected soft_cap above 0, got {soft_cap}")
    if mask is not None:
        _check_mask(query, mask, (batch, heads, queries, key.shape[2]))
        if causal:
            raise ArgumentError("attention: expected a mask or causal=True, got both; put what is causal into the mask")


def _check_mask(query: Tensor, mask: Tensor, scores: tuple[int, ...]) -> None:
    check_tensor("attention", "mask", mask, (query.dtype, torch.bool), query.device)
    fits = mask.dim() <= 4 and all(
        size in (1, full) for size, full in zip(reversed(mask.shape), reversed(scores), strict=False)
    )
    if not fits:
        raise ShapeError(f"attention: expected mask that broadcasts to {list(scores)}, got {list(mask.shape)}")


@fake("attention")
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    noise: Tensor | None,
    causal: bool,
    scale: float,
    soft_cap: float,
) -> tuple[Tensor, Tensor, Tensor]:
    # The dispatcher takes this for the kernel where one of the tensors is on `meta`: the result would have no values.
    for name, tensor in (("key", key), ("value", value), ("mask", mask), ("noise", noise)):
        if tensor is not None:
            check_device("attention", name, tensor, query.device)
    batch, heads, queries, _ = query.shape
    largest = query.new_empty(batch, queries, heads, dtype=torch.promote_types(query.dtype, torch.float32))
    # Torch's forward pass has an order of memory of its own.
    is_own = query.dtype == torch.bfloat16 and cpu_isa() == "avx512_bf16"
    output = _like_heads(query) if is_own else attention_reference(query, key, value, mask, causal, scale)
    logarithms = torch.empty_like(largest).transpose(1, 2) if is_own else query.new_empty(0, dtype=torch.float32)
    return output, largest.transpose(1, 2), logarithms


@fake("attention_backward")
def _(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return _like_heads(query), _like_heads(key), _like_heads(value)


@flops("attention")
def _(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: object, **__: object) -> int:
    from torch.utils.flop_counter import sdpa_flop_count  # imports triton

    heads = query[1]  # torch 2.11 counts no shared heads
    return sdpa_flop_count(query, (key[0], heads, *key[2:]), (value[0], heads, *value[2:]))


@flops("attention_backward")
def _(
    grad: Sequence[int], query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: object, **__: object
) -> int:
    from torch.utils.flop_counter import sdpa_backward_flop_count  # imports triton

    heads = query[1]
    return sdpa_backward_flop_count(grad, query, (key[0], heads, *key[2:]), (value[0], heads, *value[2:]))


def _like_heads(x: Tensor) -> Tensor:
    """A new tensor of the shape of x, in memory `[batch, length, heads, width]`."""
    batch, heads, length, width = x.shape
    return x.new_empty(batch, length, heads, width).transpose(1, 2)


def _save(
    ctx: Any,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, bool, float, float],
    output: tuple[Tensor, Tensor, Tensor],
) -> None:
    query, key, value, mask, noise, *ctx.options = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(query, key, value, *output, mask, noise)


def _backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    grads = _attention_backward(grad, *ctx.saved_tensors, *ctx.options)
    return *grads, None, None, None, None, None


def _gradients(grad: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    leaves, options = arguments[:3], arguments[6:]  # between them the output, the largest scores and the logarithms
    with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivative
        result = _by_reference(*leaves, *options)
    return torch.autograd.grad(result, leaves, grad, create_graph=True)


autograd("attention", _backward, _save)
autograd("attention_backward", *second_derivative(_gradients))

EXAMPLE = Example(attention, "heads", "heads", "heads")
