"""Random calls of the ops that are made of torch's products: `matrix_product`, `half_product`, `half_convolution` and
`lora_linear`."""

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from burnlike import ops

from ..hostile import Arguments, Call, both, with_gradients

HALVES = (torch.bfloat16, torch.float16)
CONVOLUTION = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)


def _half_product(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    return torch.ops.burnlike.half_product(x, y, bias)


def _half_product_reference(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    return (x.float() @ y.float() + bias.float()).to(x.dtype)


def _half_convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.ops.burnlike.half_convolution(x, weight, bias, *CONVOLUTION)


def _half_convolution_reference(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.conv2d(x.float(), weight.float(), bias.float(), padding=1).to(x.dtype)


def _matrix_product(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    return torch.ops.burnlike.matrix_product(x, y, bias)


def _lora(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, weight, *others: function(x, weight.detach(), *others, 0.5)


# The op, the same in plain torch, the dtypes and the shapes.
_Kind = tuple[Callable[..., Tensor], Callable[..., Tensor], Sequence[torch.dtype], Sequence[tuple[int, ...]]]
KINDS: dict[str, _Kind] = {
    "matrix_product": (_matrix_product, functional.linear, (torch.float32,), ((5, 7), (4, 7), (4,))),
    "half_product": (_half_product, _half_product_reference, HALVES, ((2, 5, 7), (2, 7, 4), (4,))),
    "half_convolution": (
        _half_convolution,
        _half_convolution_reference,
        HALVES,
        ((2, 3, 6, 5), (4, 3, 3, 3), (4,)),
    ),
    "lora_linear": (
        _lora(ops.lora_linear),
        _lora(ops.lora_linear_reference),
        (torch.float32, torch.float64),
        ((6, 5), (5, 4), (5, 2), (2, 4), (4,)),
    ),
}


def random_products(chance: random.Random) -> Call:
    """One of them, forward and backward."""
    arguments, name = Arguments(chance), chance.choice([*KINDS])
    native, reference, dtypes, shapes = KINDS[name]
    dtype = chance.choice(dtypes)
    places = [arguments.tensor(torch.randn(shape).to(dtype)) for shape in shapes]
    return both(
        arguments,
        name,
        with_gradients(native),
        with_gradients(reference),
        lambda it: ([it[place] for place in places], {}),
    )
