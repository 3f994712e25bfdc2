"""Rotary positions of queries and keys, forward and backward, against the same in torch as transformers writes it."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks._harness import Comparison, main
from benchmarks.ops._functions import FunctionCase, measure
from burnlike.ops import rotary


def _halves(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """transformers.models.llama: apply_rotary_pos_emb; its tables have each column twice."""

    def turned(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    return turned(query), turned(key)


def _neighbours(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """transformers.models.gptj: apply_rotary_pos_emb."""

    def turned(x: Tensor) -> Tensor:
        return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * sin

    return turned(query), turned(key)


def _ours(interleaved: bool, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    columns = slice(None, None, 2) if interleaved else slice(cos.shape[-1] // 2)
    return rotary(query, key, cos[..., columns], sin[..., columns], interleaved=interleaved)


def _inputs(tokens: int, heads: int, heads_kv: int, width: int) -> Callable[[torch.dtype], list[Tensor]]:
    def make(dtype: torch.dtype) -> list[Tensor]:
        # As projections write them.
        query, key = (torch.randn(1, tokens, count, width, dtype=dtype).transpose(1, 2) for count in (heads, heads_kv))
        angle = torch.randn(tokens, width)
        return [query.requires_grad_(), key.requires_grad_(), angle.cos().to(dtype), angle.sin().to(dtype)]

    return make


CASES = [
    FunctionCase(
        name=f"rotary {name} {tokens} x {heads}+{heads_kv} x {width}",
        ours=partial(_ours, interleaved),
        theirs=theirs,
        theirs_name="torch",
        inputs=_inputs(tokens, heads, heads_kv, width),
        values_moved=4 * tokens * (heads + heads_kv) * width,  # x and y; the gradients of y and x
        bar=3.0,
    )
    for name, interleaved, theirs in (("halves", False, _halves), ("neighbours", True, _neighbours))
    for tokens, heads, heads_kv, width in ((2048, 6, 6, 64), (2048, 32, 8, 128))
]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    return measure(CASES, repeats)


if __name__ == "__main__":
    main(__doc__ or "", run)
