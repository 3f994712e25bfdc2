"""Gradients with respect to modules: `torch.func.grad`, and the forward of a module that is given in parts."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError, AutodiffError, DTypeError
from ..mlax import apply, combine
from ..mlax.static_part import leaves
from ..mlax.tensor_leaves import Leaf, weight_places, with_detached_leaves
from ..module.identity.field_metadata import set_meta
from ..module.identity.param_id import ParamId
from ..module.tree.param import differentiable
from .packing import Inputs, Outputs, mark_gradient, tensors_of, with_tensors

Argnums = int | tuple[int, ...]


def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of `f`; as `torch.func.grad`, but arguments may be or hold modules.

    The gradient with respect to a module is a module of the same class, with the same ids, whose parameters are the
    gradients. It has holes where that module has: take the trainable part of `burnlike.mlax.partition`. The module
    itself is as it was afterwards, also where its layers change their state in place.

    `f` returns a scalar tensor; with `has_aux` `(scalar, aux)`, a pytree of tensors, modules (with their new state) and
    others, and the function returned gives `(gradient, aux)`. For a tuple of `argnums` the gradient is a tuple.

    Raises, when called, AutodiffError: a module in an argument of `argnums` has a state or a frozen parameter; and
    TracedLeakError: a module in `aux` has a plain field that was set to a tensor of the transform.

    Example:
        >>> import torch, burnlike as bl
        >>> layer = torch.nn.Linear(2, 1)
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> gradient = bl.func.grad(lambda layer: layer(x).sum())(layer)
        >>> gradient.weight.tolist(), gradient.bias.tolist()
        ([[1.0, 2.0]], [1.0])
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient_of(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return gradient_of


def value_and_grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """As `grad`; returns `(value, gradient)`, or with `has_aux` `((value, aux), gradient)`."""

    @functools.wraps(f)
    def value_and_gradient_of(*args: Any, **kwargs: Any) -> Any:
        numbers = _checked_argnums(argnums, len(args))
        wanted = [Inputs(args[number]) for number in numbers]
        for number, inputs in zip(numbers, wanted, strict=True):
            _check_differentiable(inputs, number)
        others = Inputs(([None if index in numbers else value for index, value in enumerate(args)], kwargs))
        packed = [inputs.packed(detach=True) for inputs in (*wanted, others)]
        flags: list[bool] = []  # for each packed tensor: all of `wanted` but non-persistent buffers
        for inputs in wanted:
            for module_leaves in inputs.leaves:
                flags += [True] if module_leaves is None else [leaf.saved for leaf in module_leaves]
        flags += [False] * len(tensors_of(packed[-1]))
        results: list[Any] = []

        def of_tensors(tracked_tensors: Sequence[Tensor], other_tensors: Sequence[Tensor]) -> Any:
            filled = _filled(packed, flags, tracked_tensors, other_tensors)
            positional, keywords = others.tree(filled[-1])
            for number, inputs, values in zip(numbers, wanted, filled, strict=False):
                positional[number] = inputs.tree(values)
            result = f(*positional, **keywords)
            if has_aux and not (isinstance(result, tuple) and len(result) == 2):
                raise TypeError(f"has_aux=True: expected (scalar, aux) from the function, got {type(result).__name__}")
            value, aux = result if has_aux else (result, None)
            if not isinstance(value, Tensor):
                raise AutodiffError(
                    f"expected a scalar tensor of torch from the function, got {type(value).__name__}; a burnlike"
                    " Tensor has it inside: return loss.inner.sum()"
                )
            outputs = Outputs(aux)
            weights = [pair for each in zip((*wanted, others), filled, strict=True) for pair in _weights(*each)]
            # Past the transform, which lets nothing but tensors out.
            results[:] = [outputs, dict(weights), outputs.packed()]
            return value, tensors_of(results[2])

        tensors = [tensor for values in packed for tensor in tensors_of(values)]
        tracked_tensors = [tensor for tensor, flag in zip(tensors, flags, strict=True) if flag]
        other_tensors = [tensor for tensor, flag in zip(tensors, flags, strict=True) if not flag]
        differentiated = torch.func.grad_and_value(of_tensors, has_aux=True)
        gradients, (value, aux_tensors) = differentiated(tracked_tensors, other_tensors)
        in_place = _filled(packed, flags, gradients, other_tensors)
        gradients_of_arguments = [_gradient(*each) for each in zip(wanted, in_place, strict=False)]
        gradient = gradients_of_arguments[0] if isinstance(argnums, int) else tuple(gradients_of_arguments)
        if not has_aux:
            return value, gradient
        outputs, weights, aux_packed = results
        aux = outputs.tree(with_tensors(aux_packed, aux_tensors), lambda index, position, tensor: weights.get(tensor))
        return (value, aux), gradient

    return value_and_gradient_of


def by_id(module: nn.Module) -> dict[ParamId, Any]:
    """The parameters of `module`, such as a gradient, by the ids of the module that it is the gradient of.

    Each is a tensor, or for an `mlax.Parameter` that holds several a list, tuple or dict of them. Holes are left out.

    Example:
        >>> import torch, burnlike as bl
        >>> layer = torch.nn.Linear(2, 1)
        >>> gradient = bl.func.grad(lambda layer: layer(torch.ones(3, 2)).sum())(layer)
        >>> [bl.func.by_id(gradient)[param.id].tolist() for param in bl.module.params(layer)]
        [[[3.0, 3.0]], [3.0]]
    """
    return {leaf.id: leaf.data for leaf in leaves(module)}


def _checked_argnums(argnums: Argnums, count: int) -> list[int]:
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in numbers:
        if not -count <= number < count:
            raise ArgumentError(f"argnums: expected positions of the {count} positional arguments, got {number}")
    numbers = [number % count for number in numbers]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ArgumentError(f"argnums: expected one position or several different ones, got {argnums}")
    return numbers


def _check_differentiable(inputs: Inputs, number: int) -> None:
    for value, module_leaves in zip(inputs.values, inputs.leaves, strict=True):
        if module_leaves is not None:
            wrong = [it for it in module_leaves if it.saved and not (it.trainable and differentiable(it.tensor))]
            if wrong:
                raise AutodiffError(
                    f"argument {number} is a {type(value).__name__} with {_listed(wrong)}, of which there is no"
                    " gradient: t, n = burnlike.mlax.partition(module), differentiate with respect to t, and combine"
                    " the two in the function"
                )
        elif not isinstance(value, Tensor):
            raise AutodiffError(
                f"argument {number} holds {type(value).__name__}: expected tensors and modules to differentiate with"
                " respect to; give the rest in another argument"
            )
        elif not differentiable(value):
            raise DTypeError(f"argument {number} holds a tensor of {value.dtype}, of which there is no gradient")


def _listed(wrong: list[Leaf]) -> str:
    texts = []
    for leaf in wrong[:3]:
        numbers = "" if leaf.tensor.is_floating_point() else f" of {leaf.tensor.dtype}"
        texts.append(f"the {'frozen parameter' if leaf.kind == 'weight' else 'state'} '{leaf.path}'{numbers}")
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return ", ".join(texts) + more


def _weights(inputs: Inputs, packed: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
    """(tensor within the transform, the caller's) of the weights of all modules."""
    pairs: list[tuple[Tensor, Tensor]] = []
    for module_leaves, tensors in zip(inputs.leaves, packed, strict=True):
        for leaf, tensor in zip(module_leaves, tensors, strict=True) if module_leaves else ():
            if leaf.kind == "weight":
                pairs.append((tensor, leaf.tensor))
    return pairs


def _filled(
    packed: Sequence[Sequence[Any]], flags: Sequence[bool], tracked: Sequence[Tensor], others: Sequence[Tensor]
) -> list[list[Any]]:
    """Several packed pytrees with `tracked` where the flag of a tensor is set, and `others` elsewhere, in order."""
    left, right = iter(tracked), iter(others)
    tensors = iter([next(left) if flag else next(right) for flag in flags])
    return [with_tensors(values, tensors) for values in packed]


def _gradient(inputs: Inputs, packed: Sequence[Any]) -> Any:
    """The gradients, packed, in the form of the argument that they belong to."""
    values = []
    for value, module_leaves, gradients in zip(inputs.values, inputs.leaves, packed, strict=True):
        if module_leaves is None:
            values.append(gradients)
            continue
        gradient = {
            leaf.tensor: new if leaf.saved else leaf.tensor for leaf, new in zip(module_leaves, gradients, strict=True)
        }
        module = with_detached_leaves(value, gradient.__getitem__, requires_grad=False)
        for owner, name in weight_places(module):
            set_meta(owner, name, trainable=True, stood_for=False)
        mark_gradient(module)
        values.append(module)
    return inputs.structure(values)


def fwd(*parts: nn.Module, x: Any, rng: Any = None, inference_mode: bool | None = None) -> tuple[Any, nn.Module]:
    """Combine the parts of a module, the first that has a parameter winning, and apply it.

    Args:
        parts: of one module, as `burnlike.mlax.partition` gives them; they stay as they are.
        x: the input.
        rng: a `burnlike.mlax.Key` or generator, for layers that draw random numbers.
        inference_mode: None is what the `training` flag says.

    Returns:
        The output, and the module with its new state.

    Example:
        >>> import torch, burnlike as bl
        >>> t, n = bl.mlax.partition(torch.nn.Linear(2, 1))
        >>> y, module = bl.func.fwd(t, n, x=torch.ones(3, 2))
        >>> y.shape
        torch.Size([3, 1])
    """
    if not parts:
        raise ArgumentError("fwd: expected at least one part of a module")
    return apply(combine(*parts), x, rng, inference_mode)
