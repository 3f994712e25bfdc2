"""One call of a native op, as the tests that every op has to pass take it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

# Relative and absolute distance from float64: a few roundings of the result's dtype.
TOLERANCE = {
    torch.float64: (1e-12, 1e-13),
    torch.float32: (5e-6, 5e-6),
    torch.bfloat16: (8e-3, 1e-3),
    torch.float16: (1e-3, 1e-4),
}


@dataclass(frozen=True)
class OpCase:
    """One call of an op.

    Attributes:
        name: of the op and of what is special here.
        raw: the registered op, for opcheck.
        native, reference: functions of tensors that change none of them and return a list of tensors.
        inputs: makes the tensors.
        raw_arguments: makes the arguments of `raw` from the tensors.
        differentiable: whether it has a derivative.
        dtype: of the first input.
        distance: by how much the absolute distance from float64 may be larger, for sums of values that were rounded.
    """

    name: str
    raw: OpOverload
    native: Callable[..., Sequence[Tensor]]
    reference: Callable[..., Sequence[Tensor]]
    inputs: Callable[[], list[Tensor]]
    raw_arguments: Callable[[list[Tensor]], tuple[Any, ...]]
    differentiable: bool = False
    dtype: torch.dtype = torch.float32
    distance: float = 1.0

    @property
    def owns_memory(self) -> bool:
        """Whether no two values of an input share a place."""
        return all(0 not in tensor.stride() for tensor in self.inputs())

    def __str__(self) -> str:
        return self.name


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def rounded_to(dtype: torch.dtype, values: Tensor) -> Tensor:
    """Float64 values rounded once to 16 bits, ties to even, by arithmetic in float64."""
    digits, least = (11, -14) if dtype == torch.float16 else (8, -126)
    exponents = torch.frexp(values).exponent.clamp(min=least + 1) - digits
    found = torch.ldexp(torch.ldexp(values, -exponents).round(), exponents)
    largest = torch.finfo(dtype).max
    return torch.where(found.abs() > largest, found.sign() * torch.inf, found).to(dtype)


def in_float64(tensors: list[Tensor]) -> list[Tensor]:
    """The tensors, those of floats in float64."""
    return [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]


def on_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor there, with its strides and its place in memory: `Tensor.to` would make most of them contiguous."""
    if tensor.device == torch.device(device):
        return tensor
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    strides, start = tensor.stride(), tensor.storage_offset()
    extent = start + 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    return tensor.as_strided((extent,), (1,), 0).to(device).as_strided(tensor.shape, strides, start)


def leaves_of(tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors of the same values, and those of floats among them, which require gradients."""
    copies = [tensor.clone() for tensor in tensors]
    return copies, [copy.requires_grad_() for copy in copies if copy.is_floating_point()]


# Lists of tensors of many shapes.
LISTS: dict[str, Callable[[torch.dtype], list[Tensor]]] = {
    "odd": lambda dtype: [torch.randn(size, dtype=dtype) for size in ((3, 41), (1,), (), (64,))],
    "large": lambda dtype: [torch.randn(size, dtype=dtype) for size in ((257, 300), (7,))],
    "empty": lambda dtype: [torch.randn(size, dtype=dtype) for size in ((0,), (2, 0), (5,))],
    "transposed": lambda dtype: [torch.randn(9, 65, dtype=dtype).t(), torch.randn(30, dtype=dtype)[::3]],
}

# One tensor of many shapes, whose rows are computed each by itself.
ROWS: dict[str, Callable[[torch.dtype], Tensor]] = {
    "odd": lambda dtype: torch.randn(5, 3, 123, dtype=dtype),
    "wide": lambda dtype: torch.randn(70, 1024, dtype=dtype),
    "empty": lambda dtype: torch.randn(0, 7, dtype=dtype),
    "no-columns": lambda dtype: torch.randn(3, 0, dtype=dtype),
    "vector": lambda dtype: torch.randn(33, dtype=dtype),
    "one": lambda dtype: torch.randn(4, 1, dtype=dtype),
    "transposed": lambda dtype: torch.randn(65, 9, dtype=dtype).t(),
    "strided": lambda dtype: torch.randn(6, 5, 64, dtype=dtype)[:, ::2, 1:-2:3],
    "expanded": lambda dtype: torch.randn(1, 40, dtype=dtype).expand(4, 40),
}
