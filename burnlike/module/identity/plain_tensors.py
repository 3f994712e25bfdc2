"""Tensors that a module keeps as plain attributes, not as parameters or buffers: torch's and typed ones."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...backend import Autodiff, backend_for
from ...errors import BackendError
from ...tensor.core.base import TensorBase, wrap
from ...tensor.core.spec import family_of
from .attributes import plain_names
from .nested import DEEPEST, with_items


def apply_plain(parts: dict[str, Any], skip: Mapping[str, None], function: Callable[[Tensor], Tensor]) -> None:
    """Replace each plain tensor in the attributes `parts`, also within lists, tuples and dicts, by `function` of it.

    Args:
        parts: the `__dict__` of a module.
        skip: names of attributes that are left alone.
        function: as `nn.Module._apply` takes it; typed tensors stay on their kind of backend.
    """
    for name, value in _candidates(parts, skip):
        parts[name] = _applied(value, function)


def untrack_plain(parts: dict[str, Any], skip: Mapping[str, None]) -> None:
    """Replace each plain tensor that autograd tracks by the same values, untracked; see `apply_plain`."""
    for name, value in _candidates(parts, skip):
        parts[name] = _applied(value, lambda tensor: tensor.detach() if tensor.requires_grad else tensor, True)


def _candidates(parts: dict[str, Any], skip: Mapping[str, None]) -> list[tuple[str, Any]]:
    kinds = (Tensor, TensorBase, list, tuple, dict)
    return [(name, parts[name]) for name in plain_names(parts) if isinstance(parts[name], kinds) and name not in skip]


def _applied(value: Any, function: Callable[[Tensor], Tensor], untrack: bool = False, depth: int = 0) -> Any:
    if isinstance(value, Tensor):
        return _applied_tensor(value, function, untrack)
    if isinstance(value, TensorBase):
        return value.without_autodiff() if untrack else _applied_typed(value, function)  # pyright: ignore
    if depth == DEEPEST:
        return value
    return with_items(value, lambda item: _applied(item, function, untrack, depth + 1))


def _applied_tensor(tensor: Tensor, function: Callable[[Tensor], Tensor], untrack: bool) -> Tensor:
    if isinstance(tensor, nn.Parameter):  # of another module, or hidden on purpose: torch leaves it alone too
        return tensor
    if untrack or not (tensor.requires_grad and tensor.is_leaf):
        return function(tensor)
    with torch.no_grad():
        moved = function(tensor)
    return tensor if moved is tensor else moved.detach().requires_grad_()


def _applied_typed(tensor: Any, function: Callable[[Tensor], Tensor]) -> Any:
    moved, backend = _applied_tensor(tensor.inner, function, False), tensor.spec.backend
    if moved is tensor.inner:
        return tensor
    if moved.device != backend.device:
        try:
            target = backend_for(moved.device)
        except BackendError:  # torch's `meta` and others: a typed tensor can't be there
            return tensor
        backend = Autodiff(target) if backend.ad_enabled else target
    return wrap(moved, family_of(backend)[moved.dtype][moved.ndim])
