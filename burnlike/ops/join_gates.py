"""The weights of gates put together as torch's recurrent kernels take them, in one call, and their gradients apart."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch_compat.dispatch import below_autograd
from .._torch_compat.transforms import is_batched_by_autograd
from ._function import is_recorded, is_transformed
from ._library import WITHOUT_NATIVE, fake, op

_join = op("join_gates")
_part = op("join_gates_backward")
_TYPES = (Tensor, torch.nn.Parameter)
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def join_gates(tensors: Sequence[Tensor], gates: int) -> list[Tensor]:
    """The transposes of the gates' matrices one below the other, and their vectors one behind the other.

    On the CPU one native call, as its derivative is; copies of torch's elsewhere, and for tensors that are not
    contiguous and aligned. Differentiable any number of times.

    Args:
        tensors: for each result its `gates` tensors of one shape, `[rows, columns]` or `[rows]`.
        gates: how many a result is made of.

    Returns:
        `[gates * columns, rows]` or `[gates * rows]` each.
    """
    if gates == 1 or not _is_native(tensors):
        return join_gates_reference(tensors, gates)
    return [*_JoinGates.apply(gates, *tensors)]


def join_gates_reference(tensors: Sequence[Tensor], gates: int) -> list[Tensor]:
    """The same as `join_gates` in plain torch."""
    joined: list[Tensor] = []
    for begin in range(0, len(tensors), gates):
        parts = [tensor.mT if tensor.dim() == 2 else tensor for tensor in tensors[begin : begin + gates]]
        joined.append(torch.cat(parts) if gates > 1 else parts[0])
    return joined


def _is_native(tensors: Sequence[Tensor]) -> bool:
    if "cpu" in WITHOUT_NATIVE or is_transformed() or is_recorded():
        return False
    if torch.compiler.is_compiling():  # pyright: ignore[reportPrivateImportUsage]
        return False
    if any(is_batched_by_autograd(tensor) for tensor in tensors):
        return False
    dtype = tensors[0].dtype
    return (
        dtype in _DTYPES
        and all(
            type(tensor) in _TYPES
            and tensor.device.type == "cpu"
            and tensor.dtype == dtype
            and tensor.is_contiguous()
            and not tensor.is_neg()
            for tensor in tensors
        )
        and not any(tensor.data_ptr() % dtype.itemsize for tensor in tensors)
    )


class _JoinGates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.gates = gates
        with below_autograd():
            return tuple(_join([*tensors], gates))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gates: int = ctx.gates
        if torch.is_grad_enabled() or not _is_native(grads):  # torch's own functions have the second derivative
            parts = [[part.mT if part.dim() == 2 else part for part in grad.chunk(gates)] for grad in grads]
        else:
            with below_autograd():
                parts = [it.unbind() for it in _part([*grads], gates)]
        return None, *(it for group in parts for it in group)


@fake("join_gates")
def _(tensors: list[Tensor], gates: int) -> list[Tensor]:
    return join_gates_reference(tensors, gates)


@fake("join_gates_backward")
def _(grads: list[Tensor], gates: int) -> list[Tensor]:
    return [grad.new_empty(gates, *reversed(grad.shape[1:]), grad.shape[0] // gates) for grad in grads]
