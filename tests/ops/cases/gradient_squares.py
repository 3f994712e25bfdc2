"""Cases of `gradient_squares_`."""

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from burnlike import ops
from burnlike.ops import gradient_squares_, gradient_squares_reference

from ..hostile import SHAPES, Arguments, Call, both, pick, special_values
from ..op_case import FLOATS, LISTS, OpCase, dtype_name


def _squares_case(name: str, dtype: torch.dtype, make: Callable[[torch.dtype], list[Tensor]]) -> OpCase:
    def inputs() -> list[Tensor]:
        torch.manual_seed(4)
        return make(dtype)

    def empty(tensors: Sequence[Tensor]) -> Tensor:
        return torch.full((len(tensors),), torch.nan, dtype=torch.float64, device=tensors[0].device)

    def summed(function: Callable[[Sequence[Tensor], Tensor], None]) -> Callable[..., list[Tensor]]:
        def call(*tensors: Tensor) -> list[Tensor]:
            squares = empty(tensors)
            function(tensors, squares)
            return [squares]

        return call

    return OpCase(
        name=f"gradient_squares-{name}-{dtype_name(dtype)}",
        raw=torch.ops.burnlike.gradient_squares_.default,
        native=summed(gradient_squares_),
        reference=summed(gradient_squares_reference),
        inputs=inputs,
        raw_arguments=lambda tensors: (tensors, empty(tensors)),
        dtype=dtype,
    )


CASES = [_squares_case(name, dtype, make) for name, make in LISTS.items() for dtype in FLOATS]


def random_gradient_squares(chance: random.Random) -> Call:
    """`gradient_squares_`."""
    arguments = Arguments(chance)
    grads = arguments.tensors([special_values(chance.choice(SHAPES), chance.choice(FLOATS), chance) for _ in range(3)])
    squares = arguments.tensor(torch.zeros(3, dtype=torch.float64))
    return both(
        arguments,
        "gradient_squares_",
        ops.gradient_squares_,
        ops.gradient_squares_reference,
        lambda tensors: ((pick(tensors, grads), tensors[squares]), {}),
    )
