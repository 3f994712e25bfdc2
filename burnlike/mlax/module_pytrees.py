"""Registers classes of modules as pytrees, so that `torch.func` and torch's tree functions look inside."""

from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from .._torch_compat import pytree
from ..errors import ArgumentError, StructureMismatchError
from .static_part import check_same_structure
from .tensor_leaves import Leaf, leaves, with_detached_leaves

M = TypeVar("M", bound=nn.Module)


def register_pytree(cls: type[M]) -> type[M]:
    """Let instances of `cls` be pytrees: `torch.func.grad`, `vmap` and tree functions then take them directly.

    The leaves are the parameters and buffers; holes contribute none. It is for classes whose instances are the
    arguments; a subclass is to be registered too. Once registered, every library that maps over pytrees (activation
    checkpointing, hooks of sharded models) rebuilds the instances that it is given. `torch.compile` and `burnlike.func`
    take modules without it.

    The functions of torch give modules whose weights are plain tensors, which may be part of autograd's graph; see
    `burnlike.func.restore_parameters`. Tree functions outside of transforms give parameters, cut from the graph.
    Non-persistent buffers are no leaves, but for those of `burnlike.func.stack`, which have the leading dimension too.

    It returns the class, as a decorator does; a second call has no effect. Raises ArgumentError: another library has
    registered the class.

    Example:
        >>> import torch, burnlike as bl
        >>> @bl.func.register_pytree
        ... class Scale(bl.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = bl.Param.from_data([2.0])
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> torch.func.grad(lambda scale: scale(torch.ones(3)).sum())(Scale()).factor.tolist()
        [3.0]
    """
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise TypeError(f"register_pytree: expected a class of modules, got {cls!r}")
    node = pytree.SUPPORTED_NODES.get(cls)
    if node is not None:
        if node.flatten_fn is _flatten:
            return cls
        raise ArgumentError(f"register_pytree: {cls.__name__} is registered as a pytree by another library")
    pytree.register_pytree_node(
        cls,
        _flatten,
        _unflatten,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        flatten_with_keys_fn=_flatten_with_keys,
    )
    return cls


@dataclass(slots=True, eq=False, repr=False)
class Structure:
    """A module without its leaves; equal for modules that can be mapped together."""

    module: nn.Module  # one of this structure; its tensors are not used, but for the constants
    leaves: list[Leaf]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure) or [it.path for it in self.leaves] != [it.path for it in other.leaves]:
            return False
        try:
            if self is not other:
                check_same_structure(self.module, other.module)
        except StructureMismatchError:
            return False
        return True

    def __hash__(self) -> int:
        return hash((type(self.module), len(self.leaves)))

    def __repr__(self) -> str:
        return f"Structure({type(self.module).__name__}, {[leaf.path for leaf in self.leaves]})"


@dataclass(slots=True, eq=False)
class LeavesOf:
    """The result of a tree function for a module when its results are not tensors: numbers, shapes, None."""

    structure: Structure
    values: list[Any]  # one for each leaf


def _flatten(module: nn.Module) -> tuple[list[Tensor], Structure]:
    stacked = "_burnlike_stack_members" in module.__dict__
    module_leaves = [leaf for leaf in leaves(module) if leaf.saved or stacked]
    return [leaf.tensor for leaf in module_leaves], Structure(module, module_leaves)


def _flatten_with_keys(module: nn.Module) -> tuple[list[tuple[Any, Tensor]], Structure]:
    _, structure = _flatten(module)
    return [(pytree.MappingKey(leaf.path), leaf.tensor) for leaf in structure.leaves], structure


def _unflatten(values: Any, structure: Structure) -> Any:
    values = list(values)
    if not all(isinstance(value, Tensor) for value in values):
        return LeavesOf(structure, values)
    value_of = {leaf.tensor: value for leaf, value in zip(structure.leaves, values, strict=True)}
    return with_detached_leaves(structure.module, lambda tensor: value_of.get(tensor, tensor))


pytree.register_pytree_node(LeavesOf, lambda held: (held.values, held.structure), _unflatten)
