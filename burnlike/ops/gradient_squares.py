"""The sum of squares of each of many gradients, in one call, for clipping by norm and to see whether all is finite."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ArgumentError
from ._arguments import DEVICES, check_memory, check_tensor, note_written, refuse_tracked
from ._divided import are_divided, whole
from ._library import WITHOUT_NATIVE, fake, op, refuse_lazy_negation

_gradient_squares = op("gradient_squares_")


def gradient_squares_(grads: Sequence[Tensor], squares: Tensor) -> None:
    """Set `squares` to the sums of squares of the gradients.

    Sums are formed in float64 in a fixed order: the same bits whatever the number of threads. A sum is infinite or NaN
    if a value is not finite (and of float64 gradients if it is too large itself).

    Args:
        grads: float32, float16, bfloat16 or float64, of any shapes, all on one device.
        squares: float64 `[len(grads)]` on that device.

    Raises:
        ArgumentError: squares is not contiguous.
        AutodiffError: squares requires grad, and gradients are on: call it under `torch.no_grad()`.
    """
    if are_divided(*grads):
        grads = [whole(grad) for grad in grads]
    if torch.is_grad_enabled():
        refuse_tracked("gradient_squares_", [squares])
    device_type = squares.device.type
    if device_type in WITHOUT_NATIVE or device_type not in DEVICES:
        _check(grads, squares)
        gradient_squares_reference(grads, squares)
        return
    try:
        _gradient_squares(grads, squares)
    except RuntimeError:  # the kernel checks the same before it writes, and says less
        _check(grads, squares)
        named = {f"grads[{index}]": tensor for index, tensor in enumerate(grads)}
        check_memory("gradient_squares_", named | {"squares": squares})
        raise
    note_written([squares])


@torch.no_grad()
def gradient_squares_reference(grads: Sequence[Tensor], squares: Tensor) -> None:
    """The same as `gradient_squares_` in plain torch, on any device that has float64."""
    for index, grad in enumerate(grads):
        squares[index] = grad.to(squares.dtype).square().sum()


def _check(grads: Sequence[Tensor], squares: Tensor) -> None:
    name = "gradient_squares_"
    check_tensor(name, "squares", squares, (torch.float64,), shape=[len(grads)])
    if not squares.is_contiguous():
        raise ArgumentError(f"{name}: expected squares to be contiguous; make it with torch.empty")
    for index, grad in enumerate(grads):
        check_tensor(name, f"grads[{index}]", grad, device=squares.device)


refuse_lazy_negation("gradient_squares_")


@fake("gradient_squares_")
def _(grads: list[Tensor], squares: Tensor) -> None:
    _check(grads, squares)
