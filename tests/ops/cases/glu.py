"""Cases of gated linear units."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import geglu, geglu_reference, swiglu, swiglu_reference

from ..hostile import SHAPES, Arguments, Call, both, special_values, with_gradients
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


def random_glu(chance: random.Random) -> Call:
    """One of them, forward and backward, of two tensors or one."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice(SHAPES)
    if shape and chance.random() < 0.5:
        places = [arguments.tensor(special_values((*shape[:-1], 2 * shape[-1]), dtype, chance))]
    else:
        places = [arguments.tensor(special_values(shape, dtype, chance)) for _ in range(2)]
    op, approximate = chance.choice((("swiglu", None), ("geglu", "none"), ("geglu", "tanh")))
    more = [] if approximate is None else [approximate]

    def native(gate: Tensor, up: Tensor | None = None) -> Tensor:
        return getattr(ops, op)(gate, up, *more)

    def reference(gate: Tensor, up: Tensor | None = None) -> Tensor:
        # In float64, as torch's gelu of an infinite float32 is NaN on some CPUs.
        values = getattr(ops, f"{op}_reference")(gate.double(), None if up is None else up.double(), *more)
        return values.to(gate.dtype)

    return both(
        arguments,
        op,
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: ([tensors[place] for place in places], {}),
    )
