"""Tensors that are read later, within a block that builds a module without values (`deferred.py`)."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import Tensor


class Part(Protocol):
    """A box of a tensor: where it begins, and its sizes."""

    @property
    def offsets(self) -> Sequence[int]: ...
    @property
    def sizes(self) -> Sequence[int]: ...


Read = Callable[[Part | None], Tensor]
"""Gives a part of a tensor, or None for all of it."""

current: ContextVar[Any] = ContextVar("burnlike.Deferred", default=None)
"""The innermost block of this thread."""


def at_once(function: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """The result of a function of a tensor; within a `Deferred` block, of its values, which are let go of again."""
    return function(tensor) if (block := current.get()) is None else block.at_once(function, tensor)


def deferred_tensor(shape: Sequence[int], dtype: torch.dtype, read: Read) -> Tensor | None:
    """Within a `Deferred` block, a tensor that `read` gives when its values are made; None where there is no block."""
    return None if (block := current.get()) is None else block.given(shape, dtype, read)
