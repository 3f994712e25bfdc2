"""Cases of gated linear units."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from burnlike.ops import geglu, geglu_reference, swiglu, swiglu_reference

from ..op_case import FLOATS, ROWS, OpCase, dtype_name

Make = Callable[[torch.dtype], Tensor]
Inputs = Callable[[torch.dtype], list[Tensor]]


def _case(
    name: str, dtype: torch.dtype, make_inputs: Inputs, function: Callable[..., Tensor], reference: Any, *more: str
) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        return make_inputs(dtype)

    def both(tensors: tuple[Tensor, ...]) -> tuple[Any, ...]:
        return (*tensors, *[None] * (2 - len(tensors)), *more)

    op = function.__name__
    return OpCase(
        name=f"{op}-{name}-{dtype_name(dtype)}",
        raw=getattr(torch.ops.burnlike, op).default,
        native=lambda *tensors: [function(*both(tensors))],
        reference=lambda *tensors: [reference(*both(tensors))],
        inputs=inputs,
        raw_arguments=lambda tensors: both(tuple(tensors)),
        differentiable=True,
        dtype=dtype,
    )


def _two(make: Make) -> Inputs:
    return lambda dtype: [make(dtype), make(dtype)]


def _one(make: Make) -> Inputs:
    return lambda dtype: [make(dtype).repeat_interleave(2, -1)]


SWIGLU = (swiglu, swiglu_reference)
GEGLU = (geglu, geglu_reference)

CASES = [
    *(_case(name, dtype, _two(make), *SWIGLU) for name, make in ROWS.items() for dtype in FLOATS),
    *(
        _case(f"packed-{name}", dtype, _one(ROWS[name]), *SWIGLU)
        for name in ("odd", "empty", "vector")
        for dtype in FLOATS
    ),
    *(
        _case(f"{approximate}-{name}", dtype, _two(ROWS[name]), *GEGLU, approximate)
        for approximate in ("none", "tanh")
        for name in ("odd", "wide", "strided")
        for dtype in FLOATS
    ),
    *(_case("packed-vector", dtype, _one(ROWS["vector"]), *GEGLU, "none") for dtype in FLOATS),
]
