"""Cases of normalizations, and of those of a sum."""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from burnlike import ops

from ..hostile import SHAPES, Arguments, Call, both, special_values, with_gradients
from ..op_case import FLOATS, ROWS, OpCase, dtype_name

EPSILON = 1e-4


def _eighths(x: Tensor) -> Tensor:
    """The tensor, rounded so that 16 bits hold the sum of two: what is normalized is the sum in x's dtype."""
    once = x[:1] if 0 in x.stride() else x
    once.copy_((once * 8).round() / 8)
    return x


def _case(
    op: str,
    name: str,
    dtype: torch.dtype,
    weight_dtype: torch.dtype,
    make: Callable[[torch.dtype], Tensor],
    has_beta: bool = True,
) -> OpCase:
    function, reference = getattr(ops, op), getattr(ops, f"{op}_reference")
    of_sum, has_beta = op.startswith("add_"), has_beta and op.endswith("layer_norm")

    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        rows = [_eighths(make(dtype)), _eighths(make(dtype))] if of_sum else [make(dtype)]
        return [*rows, *(torch.randn(rows[0].shape[-1], dtype=weight_dtype) for _ in range(1 + has_beta))]

    def listed(results: Tensor | tuple[Tensor, Tensor]) -> list[Tensor]:
        return [results] if isinstance(results, Tensor) else [*results]

    return OpCase(
        name=f"{op}-{name}-{dtype_name(dtype)}-{dtype_name(weight_dtype)}",
        raw=getattr(torch.ops.burnlike, op).default,
        native=lambda *tensors: listed(function(*tensors, epsilon=EPSILON)),
        reference=lambda *tensors: listed(reference(*tensors, epsilon=EPSILON)),
        inputs=inputs,
        raw_arguments=lambda tensors: (*tensors, *[None] * (op == "layer_norm" and not has_beta), EPSILON),
        differentiable=True,
        dtype=dtype,
    )


CASES = [
    *(
        _case(op, *arguments)
        for op in ("rms_norm", "layer_norm", "add_rms_norm", "add_layer_norm")
        for arguments in [
            *((name, dtype, dtype, make) for name, make in ROWS.items() for dtype in FLOATS),
            *(("mixed", dtype, torch.float32, ROWS["odd"]) for dtype in FLOATS[1:]),
        ]
    ),
    *(_case("layer_norm", "no-odd-beta", dtype, dtype, ROWS["odd"], has_beta=False) for dtype in FLOATS),
]


NORMS = {
    "add_rms_norm": (ops.add_rms_norm, ops.add_rms_norm_reference, 1),
    "add_layer_norm": (ops.add_layer_norm, ops.add_layer_norm_reference, 2),
}


def random_add_norms(chance: random.Random) -> Call:
    """One of them, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    name = chance.choice(list(NORMS))
    native, reference, weights = NORMS[name]
    shape = chance.choice([shape for shape in SHAPES if shape])
    weight_dtype = chance.choice((dtype, torch.float32))
    sizes = [(shape, dtype)] * 2 + [(shape[-1:], weight_dtype)] * weights
    numbers = [arguments.tensor(special_values(*size, chance)) for size in sizes]
    epsilon = arguments.scalar(1e-5)
    return both(
        arguments,
        name,
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: ((*(tensors[number] for number in numbers), epsilon), {}),
    )


def random_layer_norm(chance: random.Random) -> Call:
    """`layer_norm`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    weight_dtype = chance.choice((dtype, torch.float32))
    x = arguments.tensor(special_values(shape, dtype, chance))
    gamma = arguments.tensor(special_values(shape[-1:], weight_dtype, chance))
    beta = arguments.tensor(special_values(shape[-1:], weight_dtype, chance)) if chance.random() < 0.7 else None
    epsilon = arguments.scalar(1e-5)
    return both(
        arguments,
        "layer_norm",
        with_gradients(ops.layer_norm),
        with_gradients(ops.layer_norm_reference),
        lambda tensors: ((tensors[x], tensors[gamma], None if beta is None else tensors[beta], epsilon), {}),
    )


def random_rms_norm(chance: random.Random) -> Call:
    """`rms_norm`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    x = arguments.tensor(special_values(shape, dtype, chance))
    gamma = arguments.tensor(special_values(shape[-1:], chance.choice((dtype, torch.float32)), chance))
    epsilon = arguments.scalar(1e-5)
    return both(
        arguments,
        "rms_norm",
        with_gradients(ops.rms_norm),
        with_gradients(ops.rms_norm_reference),
        lambda tensors: ((tensors[x], tensors[gamma], epsilon), {}),
    )
