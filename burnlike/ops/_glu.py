"""What gated linear units share: their arguments, and how a gradient is split as they are."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import ShapeError
from ._checks import check_device, check_dtype, check_shape


def check_glu(op: str, gate: Tensor, up: Tensor | None) -> None:
    """Raise the error of the user's mistake, if there is one.

    The kernels check the same before they read, in fewer words; this runs when they refused, and without data.
    """
    check_device(op, "gate", gate)
    check_dtype(op, "gate", gate)
    if up is not None:
        check_device(op, "up", up, gate.device)
        check_dtype(op, "up", up, (gate.dtype,))
        check_shape(op, "up", up, gate.shape)
    elif gate.dim() == 0 or gate.shape[-1] % 2:
        raise ShapeError(
            f"{op}: expected gate [..., 2 d], the gate's values before those that it gates, got {list(gate.shape)}; "
            "give the two as two tensors if they are not in one"
        )


def halves(gate: Tensor, up: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gate and what it gates, without a copy, in the type that is computed in."""
    if up is None:
        gate, up = gate.chunk(2, -1)
    dtype = torch.promote_types(gate.dtype, torch.float32)
    return gate.to(dtype), up.to(dtype)


def new_output(gate: Tensor, up: Tensor | None) -> Tensor:
    """A tensor for the result."""
    return gate.new_empty(gate.shape if up is not None else (*gate.shape[:-1], gate.shape[-1] // 2))


def new_gradients(gate: Tensor, up: Tensor | None) -> tuple[Tensor, Tensor]:
    """Tensors for the gradients; of halves the first is of both, and the second empty."""
    return gate.new_empty(gate.shape), gate.new_empty(gate.shape if up is not None else (0,))


def gradients_of(reference: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """What a backward op computes, in plain torch: of its arguments gate and up require gradients."""

    def gradients(grad: Tensor, gate: Tensor, up: Tensor | None, *options: object) -> tuple[Tensor, Tensor]:
        given = [gate] if up is None else [gate, up]
        found = torch.autograd.grad(reference(gate, up, *options), given, grad, create_graph=True)
        return found[0], gate.flatten()[:0] if up is None else found[1]

    return gradients
