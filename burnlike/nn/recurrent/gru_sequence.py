"""A GRU over whole sequences on the CPU, with a backward pass of its own; `torch.gru` records each operation of a step.

Cho et al. 2014, eq. 5-8, with the reset gate after the linear transform of the hidden state. The products with the
input and those for the gradients of the weights are one each for all steps.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._torch_compat.transforms import in_forward_mode, is_batched_by_autograd, transforming
from ...ops import linear
from ...ops._function import recorded_gradients

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward.grad_input, torch.ops.aten.tanh_backward.grad_input
_DTYPES = (torch.float32, torch.float64)
_TYPES = (Tensor, torch.nn.Parameter)


def gains(x: Tensor, state: Tensor, weights: Sequence[Tensor]) -> bool:
    """True if `gru_sequence` computes these faster than `torch.gru`: with gradients, of whole tensors on the CPU."""
    tensors = (x, state, *weights)
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors) or in_forward_mode():
        return False
    if torch.is_autocast_enabled("cpu") or torch.jit.is_tracing() or torch.compiler.is_compiling():  # pyright: ignore[reportPrivateImportUsage]
        return False
    alike = all(type(it) in _TYPES and it.device.type == "cpu" and it.dtype == x.dtype for it in tensors)
    return alike and x.dtype in _DTYPES and x.numel() > 0


def gru_sequence(x: Tensor, state: Tensor, weights: Sequence[Tensor], reverse: bool) -> tuple[Tensor, Tensor]:
    """The hidden states of all steps and the last one.

    Args:
        x: `[time, batch, d_input]`.
        state: `[batch, d_hidden]`, before the first step.
        weights: for the input `[3 * d_hidden, d_input]` and for the hidden state `[3 * d_hidden, d_hidden]`, of reset,
            update and new gate, then both biases `[3 * d_hidden]`, or none.
        reverse: whether the last step is read first.

    Returns:
        `[time, batch, d_hidden]` and `[batch, d_hidden]`.
    """
    of_input, of_hidden, *biases = weights
    bias_input, bias_hidden = biases or (None, None)
    output, last = _GruSequence.apply(x.flip(0) if reverse else x, state, of_input, of_hidden, bias_input, bias_hidden)
    return output.flip(0) if reverse else output, last


class _GruSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        state: Tensor,
        of_input: Tensor,
        of_hidden: Tensor,
        bias_input: Tensor | None,
        bias_hidden: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        time, batch, _ = x.shape
        size = state.shape[1]
        gates = linear(x.reshape(time * batch, -1), of_input, bias_input).view(time, batch, 3 * size)
        hidden, of_news = gates.new_empty(time + 1, batch, size), gates.new_empty(time, batch, size)
        hidden[0] = state
        weight, states, product = of_hidden.mT, hidden.unbind(), gates.new_empty(batch, 3 * size)
        of_both, of_last = product.split([2 * size, size], -1)
        steps = zip(
            *(gates[..., : 2 * size].unbind(), *(it.unbind() for it in gates.chunk(3, -1))),
            *(of_news.unbind(), states[:-1], states[1:]),
            strict=True,
        )
        for both, reset, update, new, of_new, before, after in steps:
            if bias_hidden is None:
                torch.mm(before, weight, out=product)
            else:
                torch.addmm(bias_hidden, before, weight, out=product)
            both.add_(of_both).sigmoid_()
            new.addcmul_(reset, of_new.copy_(of_last)).tanh_()
            torch.lerp(new, before, update, out=after)
        ctx.save_for_backward(x, state, of_input, of_hidden, bias_input, bias_hidden, gates, of_news, hidden)
        # Copies, so that both may be changed in place.
        return hidden[1:].clone(), states[-1].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *saved, gates, of_news, hidden = ctx.saved_tensors
        if torch.is_grad_enabled() or transforming() or any(is_batched_by_autograd(grad) for grad in grads):
            return recorded_gradients(_by_torch, saved, grads, ctx.needs_input_grad)
        return _gradients(saved, grads, gates, of_news, hidden, ctx.needs_input_grad)


def _gradients(
    saved: Sequence[Any],
    grads: Sequence[Tensor],
    gates: Tensor,
    of_news: Tensor,
    hidden: Tensor,
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    x, _, of_input, of_hidden, *_ = saved
    time, batch, size = grads[0].shape
    before, last = hidden[:-1], grads[1]
    of_state, free = torch.empty_like(last), torch.empty_like(last)
    # By the products with the hidden state; by those with the input, of which that of the new gate differs.
    of_products, of_new_inputs = torch.empty_like(gates), torch.empty_like(of_news)
    steps = zip(
        *(grads[0].unbind(), before.unbind(), of_news.unbind(), of_new_inputs.unbind(), of_products.unbind()),
        *(part.unbind() for tensor in (gates, of_products) for part in tensor.chunk(3, -1)),
        strict=True,
    )
    for grad, state, of_new, to_new, row, reset, update, new, to_reset, to_update, to_product in reversed([*steps]):
        torch.add(grad, last, out=of_state)
        sigmoid_backward(torch.sub(state, new, out=free).mul_(of_state), update, grad_input=to_update)
        last = of_state * update
        tanh_backward(of_state.sub_(last), new, grad_input=to_new)
        sigmoid_backward(torch.mul(to_new, of_new, out=free), reset, grad_input=to_reset)
        torch.mul(to_new, reset, out=to_product)
        last.addmm_(row, of_hidden)
    rows = of_products.flatten(0, 1)
    for_hidden = linear(rows.mT, before.flatten(0, 1).mT) if needed[3] else None
    for_bias = rows.sum(0) if needed[5] else None
    of_products[..., 2 * size :] = of_new_inputs
    return (
        linear(rows, of_input.mT).view_as(x) if needed[0] else None,
        last if needed[1] else None,
        linear(rows.mT, x.reshape(time * batch, -1).mT) if needed[2] else None,
        for_hidden,
        rows.sum(0) if needed[4] else None,
        for_bias,
    )


def _by_torch(x: Tensor, state: Tensor, *weights: Tensor | None) -> tuple[Tensor, Tensor]:
    present = [weight for weight in weights if weight is not None]
    output, last = torch.gru(x, state[None], present, len(present) > 2, 1, 0.0, True, False, False)
    return output, last[0]
