"""Calls of native ops by functions with a derivative."""

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._torch_compat.compiler import is_exporting
from .._torch_compat.transforms import in_forward_mode, transforming
from ._arguments import check_memory
from ._divided import PLAIN, are_divided, on_parts
from ._library import WITHOUT_NATIVE, autograd, fake, op


def is_transformed() -> bool:
    """True if the present code runs within a transform of `torch.func` or `references()`, or forward mode is on.

    An op is its reference there, compiled or not: torch calls an op of a library once for each item of a `vmap`, can't
    differentiate it, and in a compiled graph gives it tangents of 0 without a word (torch 2.13).
    """
    return transforming() or in_forward_mode() or _REFERENCES.depth > 0


class _References(threading.local):  # a block in one thread is not to change the ops of another
    depth = 0


_REFERENCES = _References()


def takes_references() -> bool:
    return _REFERENCES.depth > 0


@contextmanager
def references() -> Iterator[None]:
    """A `with` block in which each op is its reference, made of torch's own functions."""
    _REFERENCES.depth += 1
    try:
        yield
    finally:
        _REFERENCES.depth -= 1


def is_recorded() -> bool:
    """True while `torch.export` or `torch.jit.trace` runs the present code: tools without our ops run the result."""
    return is_exporting() or torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage]


def call(name: str, native: Any, reference: Callable[..., Any], check: Callable[..., None], *arguments: Any) -> Any:
    """Call the native op, or the reference where there is no kernel or `is_transformed()`.

    Args:
        name: of the op.
        native: the op itself, whose kernels check that nothing is read or written out of bounds.
        reference: the same in plain torch.
        check: raises errors in the user's words for the same arguments. The kernels check the same before they read,
            in fewer words; this is called where they refused, and where none runs.
        arguments: of the schema; the first is a tensor. DTensors are computed with as `on_parts` says.
    """
    x = arguments[0]
    if type(x) not in PLAIN and are_divided(*arguments):
        return on_parts(name, partial(call, name, native, reference, check), arguments)
    if is_transformed() or (WITHOUT_NATIVE and x.device.type in WITHOUT_NATIVE):
        check(*arguments)
        return reference(*arguments)
    # The checks come after a refusal: before each call they would take longer than small kernels.
    try:
        return native(*arguments)
    except RuntimeError:
        if are_divided(*arguments):  # besides a plain first one
            return on_parts(name, partial(call, name, native, reference, check), arguments)
        check(*arguments)
        names = inspect.signature(check).parameters
        tensors = {key: it for key, it in zip(names, arguments, strict=True) if isinstance(it, Tensor)}
        check_memory(name, tensors)
        raise


def second_derivative(
    gradients: Callable[..., tuple[Tensor, ...]],
) -> tuple[Callable[..., tuple[Tensor | None, ...]], Callable[..., None]]:
    """The derivative of a backward op, and what it keeps, of the `gradients` that the op computes, in plain torch."""

    def save(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.save_for_backward(*(it for it in inputs if isinstance(it, Tensor)))
        ctx.arguments = [None if isinstance(it, Tensor) else it for it in inputs]
        ctx.places = [place for place, it in enumerate(inputs) if isinstance(it, Tensor)]

    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        again = torch.is_grad_enabled()
        arguments, all_grads = list(ctx.arguments), list[Tensor | None]([None] * len(ctx.arguments))
        with torch.enable_grad():
            for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
                # A place of its own in the graph: what the arguments were made of is none of this op's.
                leaf = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach()
                arguments[place] = leaf.requires_grad_(leaf.is_floating_point())
            floats = {place: arguments[place] for place in ctx.places if arguments[place].requires_grad}
            leaves = tuple(floats.values())
            results = torch.autograd.grad(gradients(*arguments), leaves, grads, create_graph=again, allow_unused=True)
        for place, result in zip(floats, results, strict=True):
            all_grads[place] = result
        return tuple(all_grads)

    return backward, save


def recorded_gradients(
    compute: Callable[..., tuple[Tensor, ...]],
    inputs: Sequence[Any],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs that are needed, by functions of torch, which have derivatives of their own."""
    with torch.enable_grad():
        # Places of their own in the graph: what one of them was made of, perhaps another, is none of this function's.
        inputs = [it.view_as(it) if isinstance(it, Tensor) and it.requires_grad else it for it in inputs]
        results = compute(*inputs)
    pairs = [(result, grad) for result, grad in zip(results, grads, strict=True) if grad is not None]
    wanted = [it for it, is_needed in zip(inputs, needed, strict=True) if is_needed]
    results, grads = zip(*pairs, strict=True)
    again = torch.is_grad_enabled()
    gradients = iter(torch.autograd.grad(results, wanted, grads, create_graph=again, allow_unused=True))
    return tuple(next(gradients) if is_needed else None for is_needed in needed)


def differentiate(name: str, backward_name: str, reference: Callable[..., Tensor], count: int) -> None:
    """Give an op its derivatives, the second in plain torch, if its backward op takes the gradient and all arguments.

    Args:
        name: of the op.
        backward_name: of the other one.
        reference: the op in plain torch.
        count: the first so many arguments are tensors with gradients, the last of them may be None; the others are
            numbers and texts.
    """
    backward_op = op(backward_name)

    @fake(backward_name)
    def _(grad: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        first = arguments[0]
        return tuple(first.new_empty(0) if it is None else it.new_empty(it.shape) for it in arguments[:count])

    def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:count])
        ctx.options = inputs[count:]

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        grads = backward_op(grad, *saved, *ctx.options)
        needed_grads = grads if saved[-1] is not None else (*grads[:-1], None)
        return *needed_grads, *(None,) * len(ctx.options)

    def gradients(grad: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        present = [argument for argument in arguments[:count] if argument is not None]
        grads = torch.autograd.grad(reference(*arguments), present, grad, create_graph=True)
        return grads if len(present) == count else (*grads, present[0].flatten()[:0])

    autograd(name, backward, save)
    autograd(backward_name, *second_derivative(gradients))
