"""`torch.func.vmap` for functions of modules, per-sample gradients, and ensembles: modules stacked into one."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .._torch_compat.pytree import broadcast_prefix, tree_flatten
from .._torch_compat.transforms import is_batched
from ..errors import ArgumentError, StructureMismatchError
from ..mlax.static_part import check_same_structure, leaves as mlax_leaves
from ..mlax.tensor_leaves import Leaf, leaves
from ..module.identity.field_metadata import Meta, change_field, drop_id, fields_of, fields_with, meta_of, set_meta
from ..module.identity.param_id import ParamId
from ..module.torch_objects.wrappers import unwrap
from ..module.transforms.structural_copy import shell
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
            # Past the transform, which lets nothing but tensors out.
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


M = TypeVar("M", bound=nn.Module)


class EnsembleMember(NamedTuple):
    """The facts about one module that a stack keeps, by the path of each part; a plain tuple, for pickles."""

    ids: dict[str, dict[str, Any]]  # as the module's parts keep them
    metas: dict[str, dict[str, Any]]  # labels and mappers, likewise
    members: tuple[Any, ...] | None  # of one that was stacked itself, what it remembers


def stack(modules: Iterable[M]) -> M:
    """One module whose tensors have a first dimension with one entry for each of `modules`, for `burnlike.func.vmap`.

    It has ids of its own and remembers those of its members for `unstack`. It shares no memory with them. They have one
    class, and the same fields, hyperparameters, mode, shapes and trainability; ids and labels may differ.
    Raises StructureMismatchError: they differ in something else than values; the message has path and both values.

    Example:
        >>> import torch, burnlike as bl
        >>> members = bl.func.stack([torch.nn.Linear(2, 1) for _ in range(3)])
        >>> members.weight.shape
        torch.Size([3, 1, 2])
        >>> [member.weight.shape for member in bl.func.unstack(members)]
        [torch.Size([1, 2]), torch.Size([1, 2]), torch.Size([1, 2])]
    """
    members = [unwrap(module) for module in modules]
    if not members:
        raise ArgumentError("stack: expected at least one module, got none")
    columns = [leaves(member) for member in members]
    for number, (member, leaves_of_member) in enumerate(zip(members, columns, strict=True)):
        check_same_structure(members[0], member)
        _check_same_leaves(columns[0], leaves_of_member, number)
        _check_same_modes(members[0], member, number)
    values: dict[Tensor, Tensor] = {}
    for row in zip(*columns, strict=True):
        stacked = torch.stack([leaf.tensor.detach() for leaf in row])
        first = row[0].tensor
        values[first] = nn.Parameter(stacked, first.requires_grad) if row[0].kind == "weight" else stacked
    new = shell(members[0], lambda owner, name, kind, tensor: values[tensor])
    for leaf in mlax_leaves(new, holes=True):
        leaf.adopt(ParamId.new(f"stack/{leaf.path}"))
    new.__dict__["_burnlike_stack_members"] = tuple(tuple(_remembered(member)) for member in members)
    return new  # pyright: ignore[reportReturnType]


def unstack(module: M) -> list[M]:
    """The modules that `module` was stacked from, with its present values and trainability, and their own ids.

    They share no memory with it. `module` is from `stack`, or what `burnlike.func.vmap`, `burnlike.mlax.apply` or a map
    made of such a module. Raises ArgumentError: it was not stacked, or a tensor lacks one entry for each member.
    """
    remembered: Sequence[tuple[Any, ...]] | None = module.__dict__.get("_burnlike_stack_members")
    if remembered is None:
        raise ArgumentError(f"unstack: this {type(module).__name__} was not made by burnlike.func.stack")
    for leaf in leaves(module):
        if leaf.tensor.dim() == 0 or len(leaf.tensor) != len(remembered):
            raise ArgumentError(
                f"unstack: '{leaf.path}' has shape {list(leaf.tensor.shape)}, expected a first dimension of"
                f" {len(remembered)}, one entry for each member"
            )
    return [_member(module, index, EnsembleMember(*member)) for index, member in enumerate(remembered)]


def _member(module: M, index: int, remembered: EnsembleMember) -> M:
    def place(owner: nn.Module, name: str, kind: Any, tensor: Tensor) -> Tensor:
        value = tensor.detach()[index].clone()
        return nn.Parameter(value, tensor.requires_grad) if kind == "weight" else value

    new = shell(module, place)
    del new.__dict__["_burnlike_stack_members"]
    if remembered.members is not None:
        new.__dict__["_burnlike_stack_members"] = remembered.members
    for path, part in new.named_modules():
        for name in fields_with(part, "id") if path in remembered.ids else ():
            drop_id(part, name)
        for name, kept in remembered.ids.get(path, {}).items():
            change_field(part, name, {"id": kept})
        for name, kept in remembered.metas.get(path, {}).items():
            stacked_meta = Meta(**kept)
            label = None if meta_of(part, name).hole else stacked_meta.name
            set_meta(
                part,
                name,
                name=label,
                load_mapper=stacked_meta.load_mapper,
                save_mapper=stacked_meta.save_mapper,
                own_id=stacked_meta.own_id,
            )
    return new


def _remembered(member: nn.Module) -> EnsembleMember:
    def kept(key: str) -> dict[str, dict[str, Any]]:
        fields = {path: fields_of(part) for path, part in member.named_modules()}
        by_path = {path: {name: of[name][key] for name in of if key in of[name]} for path, of in fields.items()}
        return {path: names for path, names in by_path.items() if names}

    return EnsembleMember(kept("id"), kept("meta"), member.__dict__.get("_burnlike_stack_members"))


def _check_same_leaves(first: list[Leaf], other: list[Leaf], number: int) -> None:
    if len(first) != len(other):
        raise StructureMismatchError(
            f"modules 0 and {number} have {len(first)} and {len(other)} distinct tensors: they are tied in different"
            " ways, or have holes in different places"
        )
    for a, b in zip(first, other, strict=True):
        for told_a, told_b in zip(_traits(a), _traits(b), strict=True):
            if told_a != told_b:
                raise StructureMismatchError(f"modules 0 and {number} differ at '{a.path}': {told_a} and {told_b}")


def _traits(leaf: Leaf) -> list[str]:
    tensor, flags = leaf.tensor, [f"trainable={leaf.trainable}", f"requires_grad={leaf.tensor.requires_grad}"]
    return [f"the path {leaf.path}", f"shape {[*tensor.shape]}", str(tensor.dtype), f"device {tensor.device}", *flags]


def _check_same_modes(first: nn.Module, other: nn.Module, number: int) -> None:
    for (path, a), (_, b) in zip(first.named_modules(), other.named_modules(), strict=True):
        if a.training is not b.training:
            raise StructureMismatchError(
                f"modules 0 and {number} differ at '{path}': training={a.training} and training={b.training}"
            )
