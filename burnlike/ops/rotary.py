"""Rotary positions of queries and keys, fused.

The pair (a, b) at a position with the angle t becomes (a cos t - b sin t, a sin t + b cos t) (Su et al. 2021, eq. 34).
"""

from typing import Any

import torch
from torch import Tensor

from ..errors import AutodiffError, ShapeError
from ._arguments import check_tensor
from ._example import Example
from ._function import call
from ._library import autograd, fake, op

_rotary = op("rotary")


def rotary(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, start: int = 0, *, interleaved: bool = False
) -> tuple[Tensor, Tensor]:
    """Turn the first r values of each query and key by the angles of their positions; the others are copied.

    Tables with a column for each pair are smaller than those of `transformers`, which have one for each value: of
    tables whose columns are equal in pairs take `cos[..., : r // 2]` for halves, a view that is not copied, and
    `cos[..., ::2]` for pairs of neighbours.

    Differentiable any number of times in `query` and `key`, not in the tables. Memory: both results; saved for
    backward are the tables alone.

    Args:
        query: `[batch, heads, sequence, d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device. A view of
            `[batch, sequence, heads, d]` is read as it is; only rows whose values are apart are copied first.
        key: `[batch, heads of its own, sequence, d]`, of query's dtype.
        cos: `[rows, r / 2]`, or `[batch or 1, rows, r / 2]`, of query's dtype or float32, with r at most d. Halves take
            `[..., rows, d]`, too: both values of a pair then have angles t and u of their own, and become
            (a cos t - b sin t, a sin u + b cos u), as in the code of `transformers`.
        sin: as cos.
        start: the row of the first position, for keys that follow those of a cache; `start + sequence` rows are there.
        interleaved: whether pairs are neighbours (x[2i], x[2i + 1]), as in GPT-J and Burn, or of both halves,
            (x[i], x[i + r/2]), as in GPT-NeoX and Llama.

    Returns:
        query and key, turned, in their dtype, computed in float32 (float64 for float64). Each is contiguous, or, where
        its heads lie beside each other in memory, a view of a contiguous `[batch, sequence, heads, d]`.

    Raises:
        AutodiffError: a table requires a gradient; `rotary_reference` has one.
    """
    cos, sin = _rows("cos", cos, query, start), _rows("sin", sin, query, start)
    return call("rotary", _rotary, _turned_both, _check, query, key, cos, sin, interleaved, False)


def rotary_reference(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, start: int = 0, *, interleaved: bool = False
) -> tuple[Tensor, Tensor]:
    """The same as `rotary` in plain torch, on any device."""
    cos, sin = _rows("cos", cos, query, start), _rows("sin", sin, query, start)
    return _turned_both(query, key, cos, sin, interleaved, False)


def _rows(name: str, table: Tensor, query: Tensor, start: int) -> Tensor:
    """The rows of a table for the positions of the query."""
    if query.dim() < 2 or table.dim() < 2:
        return table  # which the check refuses
    length, rows = query.shape[-2], table.shape[-2]
    if start == 0 and rows == length:
        return table
    if start < 0 or start + length > rows:
        raise ShapeError(
            f"rotary: expected {name} with the rows {start} to {start + length}, one for each position of query from"
            f" start, got {rows} rows"
        )
    return table[..., start : start + length, :]


def _turned_both(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, inverse: bool
) -> tuple[Tensor, Tensor]:
    if cos.dim() == 3:
        cos, sin = cos[:, None], sin[:, None]
    dtype = torch.promote_types(query.dtype, torch.float32)
    cos, sin = cos.to(dtype), sin.to(dtype)
    # Those of the first and of the second values of the pairs.
    whole = _are_whole(query, cos, interleaved)
    cosines, sines = (table.chunk(2, -1) if whole else (table, table) for table in (cos, sin))
    if inverse:
        sines = -sines[1], -sines[0]
    return _turned(query, cosines, sines, interleaved), _turned(key, cosines, sines, interleaved)


def _are_whole(query: Tensor, cos: Tensor, interleaved: bool) -> bool:
    """True if a table has a column for each value, not for each pair."""
    width = query.shape[-1]
    return not interleaved and width > 0 and width % 2 == 0 and cos.shape[-1] == width


def _turned(x: Tensor, cosines: tuple[Tensor, ...], sines: tuple[Tensor, ...], interleaved: bool) -> Tensor:
    half = cosines[0].shape[-1]
    values = x[..., : 2 * half].to(cosines[0].dtype)
    pairs = values.unflatten(-1, (half, 2)).unbind(-1) if interleaved else values.split(half, -1)
    first, second = pairs if half else (values, values)
    turned = first * cosines[0] - second * sines[0], first * sines[1] + second * cosines[1]
    y = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    y = y.to(x.dtype)
    return y if 2 * half == x.shape[-1] else torch.cat((y, x[..., 2 * half :]), -1)


def _check(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, inverse: bool) -> None:
    check_tensor("rotary", "query", query)
    check_tensor("rotary", "key", key, (query.dtype,), query.device)
    check_tensor("rotary", "cos", cos, (query.dtype, torch.float32), query.device)
    check_tensor("rotary", "sin", sin, (cos.dtype,), query.device)
    if query.dim() != 4:
        raise ShapeError(f"rotary: expected query [batch, heads, sequence, d], got {list(query.shape)}")
    batch, _, length, width = query.shape
    if key.dim() != 4 or (key.shape[0], *key.shape[2:]) != (batch, length, width):
        expected = f"[{batch}, heads, {length}, {width}], as query has it"
        raise ShapeError(f"rotary: expected key {expected}, got {list(key.shape)}")
    fits = cos.dim() == 2 or (cos.dim() == 3 and cos.shape[0] in (1, batch))
    if not fits or cos.shape[-2] != length:
        expected = f"[{length}, r / 2] or [{batch} or 1, {length}, r / 2]"
        raise ShapeError(f"rotary: expected cos {expected} for query {list(query.shape)}, got {list(cos.shape)}")
    if 2 * cos.shape[-1] > width and not _are_whole(query, cos, interleaved):
        raise ShapeError(
            f"rotary: expected cos of at most {width // 2} columns, one for each pair of {width} values, got"
            f" {cos.shape[-1]}; of a table with each column twice take cos[..., : r // 2], or cos[..., ::2] if"
            " neighbours are the same"
        )
    if sin.shape != cos.shape:
        raise ShapeError(f"rotary: expected sin of cos's shape {list(cos.shape)}, got {list(sin.shape)}")


def _new_like(x: Tensor) -> Tensor:
    batch, heads, length, width = x.shape
    if x.stride(1) < x.stride(2):
        return x.new_empty((batch, length, heads, width)).transpose(1, 2)
    return x.new_empty(x.shape)


@fake("rotary")
def _(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, inverse: bool) -> tuple[Tensor, Tensor]:
    _check(query, key, cos, sin, interleaved, inverse)
    return _new_like(query), _new_like(key)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, _, cos, sin, ctx.interleaved, ctx.inverse = inputs
    if cos.requires_grad or sin.requires_grad:
        raise AutodiffError(
            "rotary: cos or sin requires a gradient, which the op does not compute; detach() it, or use"
            " rotary_reference"
        )
    ctx.save_for_backward(cos, sin)


def _backward(ctx: Any, grad_query: Tensor, grad_key: Tensor) -> tuple[Tensor | None, ...]:
    # The derivative is the transpose: the same with -sin.
    query, key = _rotary(grad_query, grad_key, *ctx.saved_tensors, ctx.interleaved, not ctx.inverse)
    return query, key, None, None, None, None


autograd("rotary", _backward, _save)


def _example(query: Tensor, key: Tensor) -> Tensor:
    table = torch.ones(3, 2, device=query.device)
    return torch.cat(rotary(query, key, table, table), 1)


EXAMPLE = Example(_example, "queries", "keys")
