"""Cases of `add_rms_norm` and `add_layer_norm`."""

from collections.abc import Callable

import torch
from torch import Tensor

from burnlike.ops import add_layer_norm, add_layer_norm_reference, add_rms_norm, add_rms_norm_reference

from ..op_case import FLOATS, ROWS, OpCase, dtype_name

EPSILON = 1e-4


def _eighths(x: Tensor) -> Tensor:
    """The tensor, rounded so that 16 bits hold the sum of two: what is normalized is the sum in x's dtype."""
    once = x[:1] if 0 in x.stride() else x
    once.copy_((once * 8).round() / 8)
    return x


def _inputs(
    make: Callable[[torch.dtype], Tensor], dtype: torch.dtype, weight_dtype: torch.dtype, weights: int
) -> Callable[[], list[Tensor]]:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        x, residual = _eighths(make(dtype)), _eighths(make(dtype))
        return [x, residual, *(torch.randn(x.shape[-1], dtype=weight_dtype) for _ in range(weights))]

    return inputs


def _add_rms_norm_case(
    name: str, dtype: torch.dtype, weight_dtype: torch.dtype, make: Callable[[torch.dtype], Tensor]
) -> OpCase:
    return OpCase(
        name=f"add_rms_norm-{name}-{dtype_name(dtype)}-{dtype_name(weight_dtype)}",
        raw=torch.ops.burnlike.add_rms_norm.default,
        native=lambda x, residual, gamma: add_rms_norm(x, residual, gamma, EPSILON),
        reference=lambda x, residual, gamma: add_rms_norm_reference(x, residual, gamma, EPSILON),
        inputs=_inputs(make, dtype, weight_dtype, 1),
        raw_arguments=lambda tensors: (*tensors, EPSILON),
        differentiable=True,
        dtype=dtype,
    )


def _add_layer_norm_case(
    name: str, dtype: torch.dtype, weight_dtype: torch.dtype, make: Callable[[torch.dtype], Tensor]
) -> OpCase:
    return OpCase(
        name=f"add_layer_norm-{name}-{dtype_name(dtype)}-{dtype_name(weight_dtype)}",
        raw=torch.ops.burnlike.add_layer_norm.default,
        native=lambda x, residual, gamma, beta: add_layer_norm(x, residual, gamma, beta, EPSILON),
        reference=lambda x, residual, gamma, beta: add_layer_norm_reference(x, residual, gamma, beta, EPSILON),
        inputs=_inputs(make, dtype, weight_dtype, 2),
        raw_arguments=lambda tensors: (*tensors, EPSILON),
        differentiable=True,
        dtype=dtype,
    )


CASES = [
    make_case(*arguments)
    for make_case in (_add_rms_norm_case, _add_layer_norm_case)
    for arguments in [
        *((name, dtype, dtype, make) for name, make in ROWS.items() for dtype in FLOATS),
        *(("mixed", dtype, torch.float32, ROWS["odd"]) for dtype in FLOATS[1:]),
    ]
]
