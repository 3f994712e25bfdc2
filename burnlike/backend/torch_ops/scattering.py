"""Scatter in its five update modes, in torch.

Derivatives of Mul, Min and Max are Burn's: Mul passes g * v to the tensor and g * x to the values, and where the two
are equal Min and Max pass the whole gradient to both. Torch divides by the factors (0 at 0), and splits ties.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

_REDUCTIONS = {"Mul": "prod", "Min": "amin", "Max": "amax"}


class TorchScatterOps:
    """Implements the updates of `IndexOps`."""

    @staticmethod
    def scatter(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        if update == "Add":
            return torch.scatter_add(tensor, dim, indices, values)
        if update == "Assign":
            return torch.scatter(tensor, dim, indices, values)
        if torch.is_grad_enabled() and (tensor.requires_grad or values.requires_grad):
            reduce: Any = _ScatterMul if update == "Mul" else _ScatterExtreme
            if values is tensor:
                values = values.view_as(values)  # dynamo refuses one tensor as two arguments
            return reduce.apply(tensor, dim, indices, values, _REDUCTIONS[update])
        return torch.scatter_reduce(tensor, dim, indices, values, _REDUCTIONS[update])

    @staticmethod
    def select_assign(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        if update == "Add":
            return torch.index_add(tensor, dim, indices, values)
        if update == "Assign":
            return torch.index_copy(tensor, dim, indices, values)
        sizes = [1] * tensor.ndim
        sizes[dim] = -1
        return TorchScatterOps.scatter(tensor, dim, indices.view(sizes).expand_as(values), values, update)


class TorchNumericScatterOps:
    """Implements the updates of `NumericIndexOps`."""

    @staticmethod
    def scatter_nd(tensor: Tensor, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        depth = indices.shape[-1]
        rest = tensor.shape[depth:]
        rows = tensor.reshape(-1, *rest) if rest.numel() else tensor.reshape(tensor.shape[:depth].numel(), *rest)
        flat = _flat_indices(indices, tensor.shape[:depth]).reshape(-1)
        updates = values.reshape(flat.shape[0], *rest)
        return TorchScatterOps.select_assign(rows, 0, flat, updates, update).reshape(tensor.shape)


def _flat_indices(indices: Tensor, sizes: torch.Size) -> Tensor:
    """`[.., k]` coordinates -> `[..]` positions in row order; -1, which torch refuses, where one is out of range."""
    flat, valid = None, None
    for index, size in zip(indices.unbind(-1), sizes, strict=True):
        inside = (index >= 0) & (index < size)
        flat = index if flat is None else flat * size + index
        valid = inside if valid is None else valid & inside
    assert flat is not None
    assert valid is not None
    return torch.where(valid, flat, -1)


class _ScatterMul(Function):
    """The backward is made of differentiable functions, so it can be differentiated again."""

    @staticmethod
    def forward(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, reduction: str) -> Tensor:
        return torch.scatter_reduce(tensor, dim, indices, values, reduction)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensor, ctx.dim, indices, values, _ = inputs  # pyright: ignore[reportAttributeAccessIssue]
        ctx.save_for_backward(tensor, indices, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        tensor, indices, values = ctx.saved_tensors
        factors = torch.scatter_reduce(torch.ones_like(tensor), ctx.dim, indices, values, "prod")
        to_values = torch.gather(grad, ctx.dim, indices) * torch.gather(tensor, ctx.dim, indices)
        return grad * factors, None, None, to_values, None


class _ScatterExtreme(Function):
    """Min or Max. Where an element is the result, the whole gradient flows to it."""

    @staticmethod
    def forward(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, reduction: str) -> Tensor:
        return torch.scatter_reduce(tensor, dim, indices, values, reduction)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensor, ctx.dim, indices, values, _ = inputs  # pyright: ignore[reportAttributeAccessIssue]
        ctx.save_for_backward(tensor, indices, values, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        tensor, indices, values, output = ctx.saved_tensors
        to_tensor = grad * (tensor == output)
        to_values = torch.gather(grad, ctx.dim, indices) * (values == torch.gather(output, ctx.dim, indices))
        return to_tensor, None, None, to_values, None
