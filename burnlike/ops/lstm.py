"""An LSTM over whole sequences on the CPU, in both passes (Hochreiter & Schmidhuber 1997, Gers et al. 2000).

The products of a step are its own, of weights that are packed once, with the gates in the same call. Those for the
gradients of the input and of the weights are one each for all steps.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch_compat.dispatch import below_autograd
from .._torch_compat.transforms import is_batched_by_autograd
from ._arguments import autocast_dtype, check_device, check_shape, check_tensor
from ._function import is_recorded, is_transformed, recorded_gradients
from ._library import WITHOUT_NATIVE, cpu_isa, fake, op
from .linear import linear, packed_gradient

_lstm = op("lstm_")
_lstm_backward = op("lstm_backward")
_TYPES = (Tensor, torch.nn.Parameter)
_ROWS_OF_THREAD = 4
_LARGEST_WEIGHT = 2**25
"""Values of a weight that every thread reads in each step: larger ones are read faster by parts."""

Weights = Sequence[Tensor | None]
"""For the input `[4 * d_hidden, d_input]` and for the hidden state `[4 * d_hidden, d_hidden]`, of input, forget, cell
and output gate, then for each a bias `[4 * d_hidden]`, or None."""


def lstm_gains(x: Tensor, d_hidden: int, others: Sequence[Tensor | None]) -> bool:
    """True if `lstm` computes this here, and faster than `torch.lstm` does: whole tensors on the CPU, of several rows.

    In bfloat16, also within autocast, it takes a processor that multiplies it.

    Args:
        x: `[time, batch, d_input]`.
        d_hidden: size of the states.
        others: states and weights.
    """
    if "cpu" in WITHOUT_NATIVE or is_transformed() or is_recorded() or torch.compiler.is_compiling():  # pyright: ignore[reportPrivateImportUsage]
        return False
    cast_to, threads = autocast_dtype(x), torch.get_num_threads()
    dtype = cast_to or x.dtype
    if dtype != torch.float32 and (dtype != torch.bfloat16 or cpu_isa() != "avx512_bf16"):
        return False
    dtypes = (torch.float32, dtype) if cast_to else (dtype,)
    if not all(
        type(it) in _TYPES and it.device.type == "cpu" and it.dtype in dtypes for it in (x, *others) if it is not None
    ):
        return False
    has_rows = threads == 1 or x.shape[1] >= _ROWS_OF_THREAD * threads
    return has_rows and x.numel() > 0 and 4 * d_hidden**2 <= _LARGEST_WEIGHT


def lstm(
    x: Tensor, hidden: Tensor, cell: Tensor, weights: Weights, kept: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The hidden states of all steps, and the last hidden state and cell.

    Differentiable any number of times, from the second derivative on in plain torch. Memory: for backward x, and the
    gates, cells and states of all steps, six times the states; the cells are in float32 (float64 for float64).

    Args:
        x: `[time, batch, d_input]`.
        hidden: `[batch, d_hidden]`, before the first step.
        cell: as `hidden`.
        weights: see `Weights`.
        kept: `[time, batch]`, booleans. Where it is False, the state stays what it is.
        reverse: whether the last step is read first.

    Returns:
        `[time, batch, d_hidden]`, `[batch, d_hidden]` and `[batch, d_hidden]`, in x's dtype or that of autocast.
    """
    dtype = autocast_dtype(x)
    tensors: list[Any] = [x, hidden, cell, *weights]
    if dtype is not None:
        tensors = [None if tensor is None else tensor.to(dtype) for tensor in tensors]
    results: Any = _Lstm.apply(*tensors, kept, reverse)
    return results


def lstm_reference(
    x: Tensor, hidden: Tensor, cell: Tensor, weights: Weights, kept: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as `lstm` in plain torch, step by step."""
    of_input, of_hidden, bias_input, bias_hidden = (*weights,)
    assert of_input is not None
    assert of_hidden is not None
    sums = torch.nn.functional.linear(x, of_input, bias_input).unbind()
    states: list[Tensor] = []
    for step in reversed(range(len(sums))) if reverse else range(len(sums)):
        gates = sums[step] + torch.nn.functional.linear(hidden, of_hidden, bias_hidden)
        into, forget, candidate, out = gates.chunk(4, -1)
        next_cell = forget.sigmoid() * cell + into.sigmoid() * candidate.tanh()
        next_hidden = out.sigmoid() * next_cell.tanh()
        if kept is not None:
            reads = kept[step].unsqueeze(-1)
            next_cell, next_hidden = torch.where(reads, next_cell, cell), torch.where(reads, next_hidden, hidden)
        hidden, cell = next_hidden, next_cell
        states.append(hidden)
    return torch.stack(states[::-1] if reverse else states), hidden, cell


def lstm_(
    x: Tensor,
    of_input: Tensor,
    bias: Tensor | None,
    of_hidden: Tensor,
    hidden: Tensor,
    cell: Tensor,
    kept: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The steps of `lstm`, without a derivative; nothing is written in place.

    Args:
        x: `[time, batch, d_input]`.
        of_input, of_hidden: weights as of `Weights`, of any strides.
        bias: `[4 * d_hidden]`, the sum of both, or None.
        hidden, cell, kept, reverse: as of `lstm`.

    Returns:
        The gates `[time, batch, 4 * d_hidden]`, of input, forget, cell and output gate, zeros where a step is not read;
        the hidden states `[time, batch, d_hidden]`; the cells before the first step read and after each,
        `[time + 1, batch, d_hidden]`, in float32 (float64 for float64).
    """
    try:
        with below_autograd():
            return _lstm(x, of_input, bias, of_hidden, hidden, cell, kept, reverse)
    except RuntimeError:
        _check(x, of_input, bias, of_hidden, hidden, cell, kept)
        raise


def _check(x: Tensor, of_input: Tensor, bias: Tensor | None, of_hidden: Tensor, *others: Tensor | None) -> None:
    hidden, cell, kept = others
    check_tensor("lstm_", "x", x)
    time, batch, d_input = x.shape if x.dim() == 3 else (0, 0, x.shape[-1] if x.dim() else 0)
    check_shape("lstm_", "x", x, (time, batch, d_input))
    size = of_hidden.shape[-1] if of_hidden.dim() else 0
    shapes = {"of_hidden": (4 * size, size), "of_input": (4 * size, d_input), "bias": (4 * size,)}
    shapes |= {"hidden": (batch, size), "cell": (batch, size)}
    tensors = {"of_hidden": of_hidden, "of_input": of_input, "bias": bias, "hidden": hidden, "cell": cell}
    for name, tensor in tensors.items():
        if tensor is not None:
            check_tensor("lstm_", name, tensor, (x.dtype,), x.device, shapes[name])
    if kept is not None:
        check_device("lstm_", "kept", kept, x.device)
        check_tensor("lstm_", "kept", kept, (torch.bool,), x.device, (time, batch))


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        hidden: Tensor,
        cell: Tensor,
        of_input: Tensor,
        of_hidden: Tensor,
        bias_input: Tensor | None,
        bias_hidden: Tensor | None,
        kept: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        bias = bias_hidden if bias_input is None else bias_input if bias_hidden is None else bias_input + bias_hidden
        gates, states, cells = lstm_(x, of_input, bias, of_hidden, hidden, cell, kept, reverse)
        ctx.reverse, ctx.is_spent = reverse, False
        ctx.set_materialize_grads(False)
        inputs = (x, hidden, cell, of_input, of_hidden, bias_input, bias_hidden)
        ctx.save_for_backward(*inputs, bias, kept, gates, cells, states)
        last = states[0 if reverse else -1].clone()
        return states, last, cells[-1].to(states.dtype, copy=True)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, bias, kept, gates, cells, states = ctx.saved_tensors
        needed, reverse = ctx.needs_input_grad, ctx.reverse
        if (
            torch.is_grad_enabled()
            or is_transformed()
            or any(grad is not None and is_batched_by_autograd(grad) for grad in grads)
        ):

            def again(x: Tensor, hidden: Tensor, cell: Tensor, *weights: Any) -> tuple[Tensor, Tensor, Tensor]:
                return lstm_reference(x, hidden, cell, weights, kept, reverse)

            return *recorded_gradients(again, inputs, grads, needed[: len(inputs)]), None, None
        x, hidden, cell, of_input, of_hidden, *_ = inputs
        if ctx.is_spent:  # of a graph that was kept, whose gates became gradients the first time
            gates, _, _ = lstm_(x, of_input, bias, of_hidden, hidden, cell, kept, reverse)
        ctx.is_spent = True
        grad_gates = gates.data  # without a note to autograd, which would refuse to give them again
        with below_autograd():
            grad_hidden, grad_cell, of_bias = _lstm_backward(*grads, grad_gates, cells, of_hidden, kept, reverse)
        rows, read = grad_gates.flatten(0, 1), None
        if needed[4]:
            read = torch.cat([states[1:], hidden[None]] if reverse else [hidden[None], states[:-1]])
        return (
            linear(rows, of_input.mT).view_as(x) if needed[0] else None,
            grad_hidden,
            grad_cell,
            _weight_gradient(rows, x, of_input) if needed[3] else None,
            None if read is None else _weight_gradient(rows, read, of_hidden),
            of_bias if needed[5] else None,
            of_bias.clone() if needed[5] and needed[6] else of_bias if needed[6] else None,
            None,
            None,
        )


def _weight_gradient(rows: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """rows^T x; large ones, and those in bfloat16, are torch's."""
    x = x.flatten(0, 1)
    gradient = None if x.dtype == torch.bfloat16 else packed_gradient(rows, x, weight)
    return linear(rows.mT, x.mT) if gradient is None else gradient


@fake("lstm_")
def _(
    x: Tensor,
    of_input: Tensor,
    bias: Tensor | None,
    of_hidden: Tensor,
    hidden: Tensor,
    cell: Tensor,
    kept: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    _check(x, of_input, bias, of_hidden, hidden, cell, kept)
    (time, batch), size = x.shape[:2], hidden.shape[1]
    cells = x.new_empty(time + 1, batch, size, dtype=torch.promote_types(x.dtype, torch.float32))
    return x.new_empty(time, batch, 4 * size), x.new_empty(time, batch, size), cells


@fake("lstm_backward")
def _(
    grad: Tensor | None,
    grad_hidden: Tensor | None,
    grad_cell: Tensor | None,
    gates: Tensor,
    cells: Tensor,
    weight: Tensor,
    kept: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    batch, size = cells.shape[1:]
    return gates.new_empty(batch, size), gates.new_empty(batch, size), gates.new_empty(4 * size)
