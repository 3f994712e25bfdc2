"""Cases of `layer_norm`."""

from collections.abc import Callable

import torch
from torch import Tensor

from burnlike.ops import layer_norm, layer_norm_reference

from ..op_case import FLOATS, ROWS, OpCase, dtype_name

EPSILON = 1e-4


def _layer_norm_case(
    name: str,
    dtype: torch.dtype,
    weight_dtype: torch.dtype,
    make_x: Callable[[torch.dtype], Tensor],
    has_beta: bool = True,
) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        x = make_x(dtype)
        weights = [torch.randn(x.shape[-1], dtype=weight_dtype) for _ in range(1 + has_beta)]
        return [x, *weights]

    return OpCase(
        name=f"layer_norm-{name}-{dtype_name(dtype)}-{dtype_name(weight_dtype)}",
        raw=torch.ops.burnlike.layer_norm.default,
        native=lambda x, gamma, beta=None: [layer_norm(x, gamma, beta, EPSILON)],
        reference=lambda x, gamma, beta=None: [layer_norm_reference(x, gamma, beta, EPSILON)],
        inputs=inputs,
        raw_arguments=lambda tensors: (*tensors, EPSILON) if has_beta else (*tensors, None, EPSILON),
        differentiable=True,
        dtype=dtype,
    )


CASES = [
    *(_layer_norm_case(name, dtype, dtype, make) for name, make in ROWS.items() for dtype in FLOATS),
    *(_layer_norm_case("mixed", dtype, torch.float32, ROWS["odd"]) for dtype in FLOATS[1:]),
    *(_layer_norm_case("no-odd-beta", dtype, dtype, ROWS["odd"], has_beta=False) for dtype in FLOATS),
]
