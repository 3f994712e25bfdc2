"""Cases of `dropout_add`."""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import dropout_add, dropout_add_reference

from ..hostile import SHAPES, Arguments, Call, both, special_values, with_gradients
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


def random_dropout_add(chance: random.Random) -> Call:
    """`dropout_add`, forward and backward."""
    arguments, dtype = Arguments(chance), chance.choice(FLOATS)
    shape = chance.choice(SHAPES)
    x = arguments.tensor(special_values(shape, dtype, chance))
    residual = arguments.tensor(special_values(shape, dtype, chance))
    seed = arguments.tensor(torch.tensor(chance.randrange(-(2**63), 2**63)))
    probability = arguments.scalar(0.4)

    def native(x: Tensor, residual: Tensor, seed: Tensor) -> Tensor:
        return ops.dropout_add(x, residual, probability, seed=seed)

    def reference(x: Tensor, residual: Tensor, seed: Tensor) -> Tensor:
        return ops.dropout_add_reference(x, residual, probability, seed) if probability > 0 else residual + x

    return both(
        arguments,
        "dropout_add",
        with_gradients(native),
        with_gradients(reference),
        lambda tensors: ((tensors[x], tensors[residual], tensors[seed]), {}),
    )
