"""Runs a module's constructor for the tensors that it computes, without the random numbers of its parameters."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from ..._torch_compat.dispatch import TorchDispatchMode, schema_of
from ..._torch_compat.pytree import tree_flatten, tree_map
from .unset import all_tensors


def computed_tensors(build: Callable[[], nn.Module]) -> dict[str, Tensor]:
    """Build a module on the CPU and return its tensors that don't depend on random numbers, by path.

    No random number is drawn, and nothing is computed from those that would be: memory for parameters that an
    initializer would fill is set aside, but not touched.

    Args:
        build: makes the module.
    """
    mode = _WithoutRandomNumbers()
    with torch.device("cpu"), torch.no_grad(), mode:
        module = build()
    return {path: tensor for path, tensor in all_tensors(module) if not tensor.is_meta and not mode.is_unknown(tensor)}


class _WithoutRandomNumbers(TorchDispatchMode):
    """Leaves out what draws random numbers or computes with them, and knows which memory is without values so."""

    def __init__(self) -> None:
        super().__init__()
        self._unknown: set[StorageWeakRef] = set()

    def is_unknown(self, tensor: Tensor) -> bool:
        """Whether the values depend on random numbers."""
        return type(tensor) in (Tensor, nn.Parameter) and StorageWeakRef(tensor.untyped_storage()) in self._unknown

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if torch.Tag.nondeterministic_seeded not in func.tags and not any(map(self.is_unknown, tensors)):
            return func(*args, **kwargs)
        if func.is_view or torch.Tag.inplace_view in func.tags:
            return func(*args, **kwargs)  # of the same memory
        if torch.Tag.data_dependent_output in func.tags:
            if tensors[0].dtype == torch.bool and _in_torchs_initializer():
                return False  # to "draw again?"
            raise RuntimeError(f"its constructor looks at random numbers, by {func}")
        schema = schema_of(func)
        if schema.is_mutable:
            changed = [*_changed(func, args, kwargs)]
            tree_map(self._note, changed)
            return changed[0] if len(schema.returns) == 1 else tuple(changed) if schema.returns else None
        return tree_map(self._without_values, _on_meta(func, args, kwargs))

    def _without_values(self, like: Any) -> Any:
        if not isinstance(like, Tensor):
            return like
        made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="cpu")
        self._note(made)
        return made

    def _note(self, tensor: Any) -> None:
        if isinstance(tensor, Tensor) and not tensor.is_meta:
            self._unknown.add(StorageWeakRef(tensor.untyped_storage()))


def _in_torchs_initializer() -> bool:
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == torch.nn.init.__name__:
            return True
        frame = frame.f_back
    return False


def _changed(func: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """The arguments that an operation writes to."""
    for index, argument in enumerate(schema_of(func).arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield args[index] if index < len(args) else kwargs.get(argument.name)


def _on_meta(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of an operation, without values."""

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.Generator):
            return None
        return leaf.to("meta") if isinstance(leaf, Tensor) else leaf

    args, kwargs = tree_map(moved, (args, kwargs))
    if any(argument.name == "device" for argument in schema_of(func).arguments):
        kwargs["device"] = torch.device("meta")
    return func(*args, **kwargs)
