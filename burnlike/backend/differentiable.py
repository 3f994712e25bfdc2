"""Tables under Autodiff: a function that torch could not record raises, since its gradient would be lost silently."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import BackendError
from .tables import map_ops

Table = TypeVar("Table")

# Their results don't depend on the operand's values, depend on them in steps, so the derivative is 0, or are meant to
# have no history.
_WITHOUT_HISTORY = {
    *("ones_like", "zeros_like", "full_like", "empty_like", "one_hot"),
    *("ceil", "floor", "round", "trunc", "sign"),
    *("detach", "to_host", "quantization_scales"),
}


def differentiable(name: str, table: Table, torchs: type) -> Table:
    """`table` with a check of each function that is not torch's; torch's own table as it is.

    Args:
        name: of the table, for messages.
        table: a backend's.
        torchs: the class of the same table in terms of torch, whose functions torch can differentiate.
    """
    if type(table) is torchs:
        return table

    def change(function_name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if function_name in _WITHOUT_HISTORY or function is getattr(torchs, function_name, None):
            return function
        return _checked(f"{name}.{function_name}", function)

    return map_ops(table, change)


def _checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if torch.is_grad_enabled() and any(it.requires_grad for it in _tensors((args, [*kwargs.values()]))):
            floats = [it for it in _tensors(result) if it.is_floating_point()]
            if floats and not any(it.requires_grad for it in floats):
                raise BackendError(
                    f"{name}: torch can't differentiate this function of the backend: an operand requires grad, the"
                    " result does not, and its part of the gradient would be missing. Give it a derivative, by a"
                    " torch.autograd.Function (docs/backends.md), or call it on detached tensors or in torch.no_grad()"
                )
        return result

    return checked


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
