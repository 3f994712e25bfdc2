"""Cases of `bias_gelu`."""

from collections.abc import Callable

import torch
from torch import Tensor

from burnlike.ops import bias_gelu, bias_gelu_reference
from burnlike.ops._arguments import Approximate

from ..op_case import FLOATS, ROWS, OpCase, dtype_name


def _case(
    name: str,
    dtype: torch.dtype,
    make_x: Callable[[torch.dtype], Tensor],
    approximate: Approximate = "none",
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
    *(_case(name, dtype, ROWS[name], "tanh") for name in ("odd", "wide", "strided") for dtype in FLOATS),
    _case("768", torch.bfloat16, lambda dtype: torch.randn(40, 768, dtype=dtype)),
    *(_case("mixed", dtype, ROWS["wide"], bias_dtype=torch.float32) for dtype in FLOATS[1:]),
]
