"""Cases of `attention`: its native op, which `attention` itself takes for bfloat16 and float16 only."""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import attention_reference
from burnlike.ops.attention import attention_native

from ..hostile import Arguments, Call, both, special_values, with_gradients
from ..op_case import FLOATS, OpCase, dtype_name

SCALE = 0.3


def _heads(dtype: torch.dtype, *sizes: int) -> Tensor:
    """`[batch, heads, length, d_head]` as a layer splits them: in memory `[batch, length, heads, d_head]`."""
    return torch.randn(sizes, dtype=dtype).transpose(1, 2)


def _additive(dtype: torch.dtype, *sizes: int) -> Tensor:
    mask = torch.randn(sizes, dtype=dtype)
    return mask.masked_fill(torch.rand(sizes) < 0.2, -torch.inf)


def _attention_case(
    name: str,
    dtype: torch.dtype,
    inputs: Callable[[torch.dtype], list[Tensor]],
    mask: Callable[[torch.dtype], Tensor] | None = None,
    causal: bool = False,
) -> OpCase:
    def made_inputs() -> list[Tensor]:
        torch.manual_seed(1)
        return inputs(dtype)

    def made_mask(x: Tensor) -> Tensor | None:
        if mask is None:
            return None
        torch.manual_seed(2)
        made = mask(dtype)
        return made if made.dtype == torch.bool else made.to(x.dtype)

    return OpCase(
        name=f"attention-{name}-{dtype_name(dtype)}",
        raw=torch.ops.burnlike.attention.default,
        native=lambda *it: [attention_native(*it, made_mask(it[0]), causal, SCALE)],
        reference=lambda *it: [attention_reference(*it, made_mask(it[0]), causal, SCALE)],
        inputs=made_inputs,
        raw_arguments=lambda it: (*it, None, None, causal, SCALE, 0.0),
        differentiable=True,
        dtype=dtype,
        distance=8.0,
    )


CASES = [
    case
    for dtype in FLOATS
    for case in (
        _attention_case(
            "odd", dtype, lambda it: [_heads(it, 2, 5, 4, 3), _heads(it, 2, 7, 2, 3), _heads(it, 2, 7, 2, 3)]
        ),
        _attention_case("causal", dtype, lambda it: [_heads(it, 1, 9, 2, 4) for _ in range(3)], causal=True),
        _attention_case(
            "bool-mask",
            dtype,
            lambda it: [torch.randn(2, 2, 5, 4, dtype=it) for _ in range(3)],
            mask=lambda _: torch.rand(2, 1, 1, 5) < 0.7,
        ),
        _attention_case(
            "blocks",
            dtype,
            lambda it: [_heads(it, 1, 170, 4, 8), _heads(it, 1, 150, 2, 8), _heads(it, 1, 150, 2, 8)],
            mask=lambda it: _additive(it, 4, 170, 150),
        ),
        _attention_case(
            "causal-blocks",
            dtype,
            lambda it: [_heads(it, 1, 270, 2, 8), _heads(it, 1, 300, 1, 8), _heads(it, 1, 300, 1, 8)],
            causal=True,
        ),
    )
]


def values(shape: tuple[int, ...], dtype: torch.dtype, chance: random.Random) -> Tensor:
    """Special ones that are small, as torch gives 0 for some queries that are NaN; tests of attention have others."""
    return special_values(shape, dtype, chance).nan_to_num(0.0).clamp(-4.0, 4.0) / 2


def random_attention(chance: random.Random) -> Call:
    """`attention`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice((torch.bfloat16, torch.float16))
    heads = chance.choice((1, 2))
    query = arguments.tensor(values((2, 2, chance.choice((1, 5, 20)), 8), dtype, chance))
    key, value = (arguments.tensor(values((2, heads, 7, 8), dtype, chance)) for _ in range(2))
    mask = torch.rand(2, 1, 1, 7) < 0.8 if chance.random() < 0.4 else None
    causal = mask is None and chance.random() < 0.5
    scale = chance.choice((None, 0.5))
    return both(
        arguments,
        "attention",
        with_gradients(ops.attention),
        with_gradients(ops.attention_reference),
        lambda it: ((it[query], it[key], it[value], mask, causal, scale), {}),
    )
