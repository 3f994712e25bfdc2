"""lift: makes a function of torch tensors take and give typed ones too."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from .torch_function import call_plain, is_typed

P = ParamSpec("P")
R = TypeVar("R")


def lift(function: Callable[P, R]) -> Callable[P, R]:
    """Let `function`, written for torch tensors, take typed tensors as well; then its results are typed too.

    Inside it sees torch tensors. On a backend that does not track nothing it computes is tracked, also not with
    parameters that require grad. The layers of `burnlike.nn` are made so.

    It may be a layer: torch's that call methods of their input, such as `MultiheadAttention`, need it, and so do layers
    with backward hooks. Lift a layer where it is called, `lift(self.attention)(x)`, so that it stays its module's.

    Example:
        >>> import torch
        >>> from burnlike import Cpu, Tensor
        >>> from burnlike.tensor import lift
        >>> double = lift(lambda x: x + x)
        >>> double(Tensor(torch.ones(2), Cpu())).inner, double(torch.ones(2))
        (tensor([2., 2.]), tensor([2., 2.]))
    """

    name: str = getattr(function, "__name__", type(function).__name__)

    def lifted(*args: P.args, **kwargs: P.kwargs) -> R:
        for value in args:
            if is_typed(value):
                return call_plain(function, name, args, kwargs)
        for value in kwargs.values():
            if is_typed(value):
                return call_plain(function, name, args, kwargs)
        return function(*args, **kwargs)

    # What a layer has in its __dict__ are its parameters and hooks, not what a function would have there.
    return lifted if isinstance(function, torch.nn.Module) else wraps(function)(lifted)
