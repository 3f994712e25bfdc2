"""Cases of `rms_norm`."""

from collections.abc import Callable

import torch
from torch import Tensor

from burnlike.ops import rms_norm, rms_norm_reference

from ..op_case import FLOATS, ROWS, OpCase, dtype_name

EPSILON = 1e-4


def _rms_norm_case(
    name: str, dtype: torch.dtype, gamma_dtype: torch.dtype, make_x: Callable[[torch.dtype], Tensor]
) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        x = make_x(dtype)
        return [x, torch.randn(x.shape[-1], dtype=gamma_dtype)]

    return OpCase(
        name=f"rms_norm-{name}-{dtype_name(dtype)}-{dtype_name(gamma_dtype)}",
        raw=torch.ops.burnlike.rms_norm.default,
        native=lambda x, gamma: [rms_norm(x, gamma, EPSILON)],
        reference=lambda x, gamma: [rms_norm_reference(x, gamma, EPSILON)],
        inputs=inputs,
        raw_arguments=lambda tensors: (*tensors, EPSILON),
        differentiable=True,
        dtype=dtype,
    )


CASES = [
    *(_rms_norm_case(name, dtype, dtype, make) for name, make in ROWS.items() for dtype in FLOATS),
    *(_rms_norm_case("mixed", dtype, torch.float32, ROWS["odd"]) for dtype in FLOATS[1:]),
]
