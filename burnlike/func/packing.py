"""Replaces modules in arguments and results by lists of tensors for torch's transforms, and back."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from .._torch_compat.pytree import tree_flatten, tree_unflatten
from .._torch_compat.transforms import transforming
from ..mlax import Parameter
from ..mlax.tensor_leaves import Leaf, check_no_leak, leaves, with_detached_leaves, with_leaves
from ..module.torch_objects.wrappers import parts_of
from ..module.tree.param import IS_GRADIENT


def is_module(value: Any) -> bool:
    """True if `value` is one leaf to us, registered as a pytree or not."""
    return isinstance(value, nn.Module) and not isinstance(value, Parameter)


class Packing:
    """A pytree in which modules may be anywhere: its leaves, a module is one, and the tensors of those (else None)."""

    def __init__(self, tree: Any) -> None:
        self.values, self._spec = tree_flatten(tree, is_leaf=is_module)
        self.leaves: list[list[Leaf] | None] = [leaves(value) if is_module(value) else None for value in self.values]

    def packed_as(self, tensor_of: Callable[[Leaf], Tensor]) -> list[Any]:
        """The leaves, with the list of `tensor_of(leaf)` in place of each module."""
        pairs = zip(self.values, self.leaves, strict=True)
        return [
            value if module_leaves is None else [tensor_of(leaf) for leaf in module_leaves]
            for value, module_leaves in pairs
        ]

    def structure(self, packed: Sequence[Any]) -> Any:
        """`packed`, one value for each leaf, in the form of the pytree."""
        return tree_unflatten(packed, self._spec)


class Inputs(Packing):
    """The arguments of a transformed function."""

    def packed(self, detach: bool) -> list[Any]:
        """The leaves, with a list of tensors in place of each module.

        Buffers are copies, so that a forward that changes them in place leaves the caller's module as it is. `detach`
        cuts weights from autograd's graph outside of all transforms, so that results don't keep it.
        """
        cut = detach and not transforming()

        def given(leaf: Leaf) -> Tensor:
            tensor = leaf.tensor.detach() if cut else leaf.tensor
            return tensor.clone() if leaf.kind == "state" else tensor

        return self.packed_as(given)

    def tree(self, packed: Sequence[Any]) -> Any:
        """The pytree to call the function with, from `packed` as it is within the transform."""
        rebuilt = []
        for value, module_leaves, tensors in zip(self.values, self.leaves, packed, strict=True):
            if module_leaves is None:
                rebuilt.append(tensors)
                continue
            # By tensor, not by place: a tied one is in several, and stays tied.
            inner = {leaf.tensor: tensor for leaf, tensor in zip(module_leaves, tensors, strict=True)}
            rebuilt.append(with_leaves(value, inner.__getitem__))
        return self.structure(rebuilt)


class Outputs(Packing):
    """The results of a function within a transform; a module with a tensor of it in a plain field is refused."""

    def __init__(self, tree: Any) -> None:
        super().__init__(tree)
        for value in self.values:
            if is_module(value):
                check_no_leak(value)

    def packed(self) -> list[Any]:
        return self.packed_as(lambda leaf: leaf.tensor)

    def tree(self, packed: Sequence[Any], same: Callable[[int, int, Tensor], Tensor | None]) -> Any:
        """The pytree for the caller, from `packed` as it came out of the transform.

        `same` gives the caller's own tensor for `(index of the module, index of the tensor in it, tensor within the
        transform)`, or None where the function made it anew.
        """
        rebuilt = []
        for index, (value, module_leaves, tensors) in enumerate(zip(self.values, self.leaves, packed, strict=True)):
            if module_leaves is None:
                rebuilt.append(tensors)
                continue
            outer: dict[Tensor, Tensor] = {}
            for position, (leaf, tensor) in enumerate(zip(module_leaves, tensors, strict=True)):
                callers = same(index, position, leaf.tensor)
                outer[leaf.tensor] = tensor if callers is None else callers
            rebuilt.append(with_detached_leaves(value, outer.__getitem__))
            if any(hasattr(leaf.tensor, IS_GRADIENT) for leaf in module_leaves):  # as of vmap(grad(f))
                mark_gradient(rebuilt[-1])
        return self.structure(rebuilt)


def mark_gradient(module: nn.Module) -> None:
    """Say of the parameters of a module that they are gradients."""
    for _, part in parts_of(module):  # a parameter that is parametrized lies elsewhere than it is labelled
        for tensor in part._parameters.values():
            if tensor is not None:
                setattr(tensor, IS_GRADIENT, True)


def grouped(leaves: Sequence[list[Leaf] | None], flat: Iterable[Any]) -> list[Any]:
    """One value for each leaf from one for each tensor: those of a module as a list."""
    left = iter(flat)
    return [next(left) if module_leaves is None else [next(left) for _ in module_leaves] for module_leaves in leaves]


def tensors_of(packed: Sequence[Any]) -> list[Tensor]:
    """All tensors of packed leaves, in order."""
    rows = [value if isinstance(value, list) else [value] for value in packed]
    return [it for row in rows for it in row if isinstance(it, Tensor)]


def with_tensors(packed: Sequence[Any], tensors: Iterable[Tensor]) -> list[Any]:
    """`packed` with its tensors replaced by the next ones of `tensors`, as `tensors_of` lists them."""
    left = iter(tensors)

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [next(left) for _ in value]
        return next(left) if isinstance(value, Tensor) else value

    return [filled(value) for value in packed]
