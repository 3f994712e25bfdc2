"""`torch.func.vmap` for functions of modules: ensembles and per-sample gradients."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch_compat.pytree import broadcast_prefix, tree_flatten
from .._torch_compat.transforms import is_batched
from ..errors import ArgumentError
from .packing import Inputs, Outputs, grouped

Dims = Any


def vmap(
    f: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that maps `f` over a dimension of its arguments; as `torch.func.vmap`, but with modules anywhere.

    A module counts as the list of its tensors: 0 in `in_dims` maps over the members of `burnlike.func.stack`, None
    gives each call the same module. Modules that are passed in are as they were afterwards.

    Args:
        f: takes and returns pytrees of tensors and modules.
        in_dims: the dimension to map over, or None, for each argument; an int for all.
        out_dims: where the mapped dimension goes in the results; None for a module whose tensors are the same in every
            call, such as one that `f` returns unchanged: a state that differs from call to call raises ArgumentError.
        randomness: `error`, `same` or `different` random numbers in the calls.
        chunk_size: at most so many calls at once.

    Raises TracedLeakError: a returned module has a plain field that was set to a tensor of the transform.

    Example:
        >>> import torch, burnlike as bl
        >>> members = bl.func.stack([torch.nn.Linear(2, 1) for _ in range(3)])
        >>> bl.func.vmap(lambda layer, x: layer(x), in_dims=(0, None))(members, torch.ones(5, 2)).shape
        torch.Size([3, 5, 1])
    """

    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        inputs, keywords = Inputs(args), Inputs(kwargs)
        packed, packed_keywords = inputs.packed(detach=False), keywords.packed(detach=False)
        flat, spec = tree_flatten(inputs.structure(packed))
        flat_in_dims = broadcast_prefix(in_dims, spec)
        if flat_in_dims is None:
            raise ArgumentError(f"in_dims: expected dimensions as the arguments are nested, got {in_dims}")
        results: list[Any] = []

        def of_flat(*values: Any) -> Any:
            grouped_values = grouped(inputs.leaves, values)
            outputs = Outputs(f(*inputs.tree(grouped_values), **keywords.tree(packed_keywords)))
            result = outputs.structure(outputs.packed())
            dims = _flat_out_dims(result, out_dims)
            if dims is not None:
                _check_unmapped(outputs, dims)
            weights = _weight_dims(inputs, grouped_values, flat_in_dims)
            results[:] = [outputs, weights, dims]
            return result

        result = torch.func.vmap(of_flat, tuple(flat_in_dims), out_dims, randomness, chunk_size=chunk_size)(*flat)
        outputs, weights, dims = results
        groups = grouped(outputs.leaves, tree_flatten(result)[0])
        return outputs.tree([_writable(group) for group in groups], _same(outputs, weights, dims))

    return mapped


def _writable(group: Any) -> Any:
    """The tensors of a module with memory of their own: what is the same in every call comes as an expanded view."""
    if not isinstance(group, list):
        return group
    return [tensor.clone(memory_format=torch.contiguous_format) if 0 in tensor.stride() else tensor for tensor in group]


def _flat_out_dims(result: Any, out_dims: Dims) -> list[int | None] | None:
    """`out_dims` for each tensor of a packed result; None where they don't fit it, which torch then says."""
    if isinstance(result, Tensor):
        return [out_dims[0] if isinstance(out_dims, tuple) else out_dims]
    return broadcast_prefix(out_dims, tree_flatten(result)[1])


def _check_unmapped(outputs: Outputs, dims: Sequence[int | None]) -> None:
    for module_leaves, module_dims in zip(outputs.leaves, grouped(outputs.leaves, dims), strict=True):
        for leaf, dim in zip(module_leaves or (), module_dims if module_leaves else (), strict=True):
            if dim is None and is_batched(leaf.tensor):
                raise ArgumentError(
                    f"the {'parameter' if leaf.kind == 'weight' else 'state'} '{leaf.path}' differs from call to call,"
                    " but out_dims is None for its module: give out_dims=0 to get one of each, or change it outside of"
                    " vmap, from the whole batch"
                )


def _weight_dims(
    inputs: Inputs, packed: Sequence[Any], dims: Sequence[int | None]
) -> dict[Tensor, tuple[Tensor, int | None]]:
    """The weights within the transform -> those of the caller, and the dimension that is mapped over."""
    rows = zip(inputs.leaves, packed, grouped(inputs.leaves, dims), strict=True)
    leaves = [
        it
        for module_leaves, *row in rows
        if module_leaves
        for it in zip(module_leaves, *row, strict=True)
        if it[0].kind == "weight"
    ]
    return {tensor: (leaf.tensor, None if dim is None else dim % leaf.tensor.dim()) for leaf, tensor, dim in leaves}


def _same(
    outputs: Outputs, weights: dict[Tensor, tuple[Tensor, int | None]], dims: Sequence[int | None]
) -> Callable[[int, int, Tensor], Tensor | None]:
    """Tells which results are weights of the caller that came back unchanged, in the place where they were."""
    by_leaf = grouped(outputs.leaves, dims)

    def same(index: int, position: int, tensor: Tensor) -> Tensor | None:
        outer, before = weights.get(tensor, (None, None))
        after = by_leaf[index][position]
        if outer is None or before is None or after is None:
            return outer if before is after else None
        return outer if after % outer.dim() == before else None

    return same
