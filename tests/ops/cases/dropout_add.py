"""Cases of `dropout_add`."""

from collections.abc import Callable

import torch
from torch import Tensor

from burnlike.ops import dropout_add, dropout_add_reference

from ..op_case import FLOATS, ROWS, OpCase, dtype_name

PROBABILITY = 0.3


def _case(name: str, dtype: torch.dtype, wide: torch.dtype, make: Callable[[torch.dtype], Tensor]) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        x = make(dtype)
        return [x, torch.randn_like(x).to(wide), torch.tensor(-12345678987654321)]

    return OpCase(
        name=f"dropout_add-{name}-{dtype_name(dtype)}-{dtype_name(wide)}",
        raw=torch.ops.burnlike.dropout_add.default,
        native=lambda x, residual, seed: [dropout_add(x, residual, PROBABILITY, seed=seed)],
        reference=lambda x, residual, seed: [dropout_add_reference(x, residual, PROBABILITY, seed)],
        inputs=inputs,
        raw_arguments=lambda tensors: (tensors[0], tensors[1], PROBABILITY, tensors[2]),
        differentiable=True,
        dtype=dtype,
    )


CASES = [
    *(_case(name, dtype, dtype, make) for name, make in ROWS.items() for dtype in FLOATS),
    *(_case("odd-mixed", dtype, torch.float32, ROWS["odd"]) for dtype in (torch.bfloat16, torch.float16)),
]
