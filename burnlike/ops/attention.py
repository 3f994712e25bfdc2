"""Scaled dot product attention, fast on CPUs in bfloat16, and in float16 backward.

softmax(scale q k^T + mask) v (Vaswani et al. 2017, eq. 1). In bfloat16 on CPUs that multiply it (AVX-512 BF16) both
passes are made of blocks of scores in float32 that never leave the cache (Dao 2023, "FlashAttention-2"). Elsewhere the
forward pass is torch's, and the backward pass computes the weights again from the logarithms of their sums, in blocks
that torch multiplies in float32 (algorithm 2).
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

from ..errors import ArgumentError, ShapeError
from ._arguments import check_shape, check_tensor, for_products
from ._divided import are_divided, on_parts
from ._function import call, is_recorded, second_derivative
from ._library import autograd, cpu_isa, fake, flops, op

_attention = op("attention")
_attention_backward = op("attention_backward")


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attend from each query to the keys, as `torch.nn.functional.scaled_dot_product_attention` without dropout.

    The native op runs on CPUs in bfloat16, and where a derivative in float16 is asked for; it is differentiable any
    number of times, from the second derivative on in plain torch. Torch's attention runs elsewhere: on CUDA, in float32
    and float64, for a mask with a derivative, and for tensors without values.

    Memory: for backward, the arguments, the output and a float32 for each query of each head are kept; a bool mask is
    kept in query's dtype. On processors that multiply bfloat16 each thread packs one head of keys with its queries
    beside some blocks, and the gradients of queries are summed in float32: of one head of keys for each thread, or, if
    there are fewer than 16 heads of keys in all, of up to 16. Elsewhere the backward pass allocates for each thread up
    to 4 bytes for each score of one head of keys, half of it if causal.

    Args:
        query: `[batch, heads, queries, d_head]`, of any float dtype.
        key: `[batch, heads or a divisor, keys, d_head]`, each head for as many heads of the query in a row.
        value: as key.
        mask: broadcast to `[batch, heads, queries, keys]`: bool, False where a key is hidden, or of query's dtype,
            added to the scores.
        causal: whether a query sees only the keys up to its own place; not with a mask.
        scale: of the scores; None for `d_head ** -0.5`.

    Returns:
        `[batch, heads, queries, d_head]`, in query's dtype.

    Raises:
        ArgumentError: there are both a mask and `causal`.
    """
    if are_divided(query, key, value, mask):
        # A mask of each head is to be divided with them.
        name = "attention" if mask is None or mask.dim() < 3 or mask.shape[-3] == 1 else ""
        return on_parts(name, attention, (query, key, value, mask, causal, scale))
    query, key, value = for_products(query), for_products(key), for_products(value)
    mask = None if mask is None else for_products(mask)
    _check(query, key, value, mask, causal)
    function = attention_native if _is_faster(query, key, value, mask) else attention_reference
    return function(query, key, value, mask, causal, scale)


def attention_native(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The native op, whatever the dtype: on CPUs, of tensors that have values."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -torch.inf)
        mask = mask.expand(*query.shape[:3], key.shape[2])
    return call("attention", _attention, _with_logsumexp, _check, query, key, value, mask, causal, scale)[0]


def attention_reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The same as `attention` by torch's own function, on any device."""
    grouped = bool(query.shape[1] != key.shape[1])
    return F.scaled_dot_product_attention(query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=grouped)


def _is_faster(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether the native op computes this, or a derivative that there will be, faster than torch does."""
    has_derivative = torch.is_grad_enabled() and any(it.requires_grad for it in (query, key, value))
    return (
        query.device.type == "cpu"
        and (query.dtype == torch.bfloat16 or (query.dtype == torch.float16 and has_derivative))
        and not (mask is not None and mask.requires_grad)
        and query.numel() > 0
        and key.numel() > 0
        and not is_recorded()  # a program without a backward pass, which torch's tools take as it is
    )


def _with_logsumexp(*arguments: Any) -> tuple[Tensor, None]:
    return attention_reference(*arguments), None


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float = 1.0) -> None:
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
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    batch, heads, queries, _ = query.shape
    logsumexp = query.new_empty(batch, queries, heads, dtype=torch.promote_types(query.dtype, torch.float32))
    # Torch's forward pass has an order of memory of its own.
    is_own = query.dtype == torch.bfloat16 and cpu_isa() == "avx512_bf16"
    output = _like_heads(query) if is_own else attention_reference(query, key, value, mask, causal, scale)
    return output, logsumexp.transpose(1, 2)


@fake("attention_backward")
def _(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return _like_heads(query), _like_heads(key), _like_heads(value)


@flops("attention")
def _(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: object, **__: object) -> int:
    return sdpa_flop_count(query, key, value)


@flops("attention_backward")
def _(
    grad: Sequence[int], query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: object, **__: object
) -> int:
    return sdpa_backward_flop_count(grad, query, key, value)


def _like_heads(x: Tensor) -> Tensor:
    """Of the shape of x, in memory `[batch, length, heads, width]`."""
    batch, heads, length, width = x.shape
    return x.new_empty(batch, length, heads, width).transpose(1, 2)


def _save(
    ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor | None, bool, float], output: tuple[Tensor, Tensor]
) -> None:
    query, key, value, mask, ctx.causal, ctx.scale = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(query, key, value, *output, mask)


def _backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    grads = _attention_backward(grad, *ctx.saved_tensors, ctx.causal, ctx.scale)
    return *grads, None, None, None


def _gradients(grad: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    given, options = arguments[:3], arguments[5:]  # between them the output and the logarithms
    with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivative
        result = attention_reference(*given, *options)
    return torch.autograd.grad(result, given, grad, create_graph=True)


autograd("attention", _backward, _save)
autograd("attention_backward", *second_derivative(_gradients))
