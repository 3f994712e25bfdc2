"""Cases of gated linear units."""

from collections.abc import Callable

import torch
from torch import Tensor

from burnlike.ops import swiglu, swiglu_reference

from ..op_case import FLOATS, ROWS, OpCase, dtype_name

Make = Callable[[torch.dtype], Tensor]


def _case(name: str, dtype: torch.dtype, make_inputs: Callable[[torch.dtype], list[Tensor]]) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        return make_inputs(dtype)

    return OpCase(
        name=f"swiglu-{name}-{dtype_name(dtype)}",
        raw=torch.ops.burnlike.swiglu.default,
        native=lambda *tensors: [swiglu(*tensors)],
        reference=lambda *tensors: [swiglu_reference(*tensors)],
        inputs=inputs,
        raw_arguments=lambda tensors: (*tensors, *[None] * (2 - len(tensors))),
        differentiable=True,
        dtype=dtype,
    )


def _two(make: Make) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [make(dtype), make(dtype)]


def _one(make: Make) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [make(dtype).repeat_interleave(2, -1)]


CASES = [
    *(_case(name, dtype, _two(make)) for name, make in ROWS.items() for dtype in FLOATS),
    *(_case(f"packed-{name}", dtype, _one(ROWS[name])) for name in ("odd", "empty", "vector") for dtype in FLOATS),
]
