"""Cases of `bias_gelu`."""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import bias_gelu, bias_gelu_reference
from burnlike.ops.bias_gelu import Form

from ..hostile import SHAPES, Arguments, Call, both, special_values, with_gradients
from ..op_case import FLOATS, ROWS, OpCase, dtype_name


def _case(
    name: str,
    dtype: torch.dtype,
    make_x: Callable[[torch.dtype], Tensor],
    approximate: Form = "none",
    bias_dtype: torch.dtype | None = None,
) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        x = make_x(dtype)
        return [x, torch.randn(x.shape[-1], dtype=bias_dtype or dtype)]

    return OpCase(
        name=f"bias_gelu-{approximate}-{name}-{dtype_name(dtype)}-{dtype_name(bias_dtype or dtype)}",
        raw=torch.ops.burnlike.bias_gelu.default,
        native=lambda x, bias: [bias_gelu(x, bias, approximate)],
        reference=lambda x, bias: [bias_gelu_reference(x, bias, approximate)],
        inputs=inputs,
        raw_arguments=lambda tensors: (*tensors, approximate),
        differentiable=True,
        dtype=dtype,
    )


CASES = [
    *(_case(name, dtype, make) for name, make in ROWS.items() for dtype in FLOATS),
    *(
        _case(name, dtype, ROWS[name], form)
        for name in ("odd", "wide", "strided")
        for dtype in FLOATS
        for form in ("tanh", "sigmoid")
    ),
    _case("768", torch.bfloat16, lambda dtype: torch.randn(40, 768, dtype=dtype)),
    *(_case("mixed", dtype, ROWS["wide"], bias_dtype=torch.float32) for dtype in FLOATS[1:]),
]


FORMS: tuple[Form, ...] = ("none", "tanh", "sigmoid")


def random_bias_gelu(chance: random.Random) -> Call:
    """`bias_gelu`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice([shape for shape in SHAPES if shape])
    x = arguments.tensor(special_values(shape, dtype, chance))
    bias = arguments.tensor(special_values(shape[-1:], chance.choice((dtype, torch.float32)), chance))
    approximate = chance.choice(FORMS)

    def native(x: Tensor, bias: Tensor) -> Tensor:
        return ops.bias_gelu(x, bias, approximate)

    def reference(x: Tensor, bias: Tensor) -> Tensor:
        # In float64, as torch's gelu of an infinite float32 is NaN on some CPUs.
        return ops.bias_gelu_reference(x.double(), bias.double(), approximate).to(x.dtype)

    return both(
        arguments,
        "bias_gelu",
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: ((tensors[x], tensors[bias]), {}),
    )
