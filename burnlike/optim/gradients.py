"""GradientsParams: the gradients of one backward pass, by ParamId."""

from collections.abc import Iterator
from typing import Self

from torch import Tensor, nn

from ..module import Param, ParamId, params


class GradientsParams:
    """A container of gradients that belong to the parameters of a module."""

    def __init__(self) -> None:
        self._entries: dict[ParamId, tuple[Param, Tensor]] = {}

    @classmethod
    def from_module(cls, module: nn.Module) -> Self:
        """Take the gradients out of `module`: each `.grad` is moved here and left None.

        Frozen parameters and those that took no part have none, and are absent.
        """
        gradients = cls()
        entries = gradients._entries
        for param in params(module, "weight"):
            tensor = param.tensor
            grad = tensor.grad
            if grad is not None:
                tensor.grad = None
                entries[param.id] = (param, grad)
        return gradients

    def get(self, param: Param) -> Tensor | None:
        """The gradient of `param`, or None."""
        entry = self._entries.get(param.id)
        return None if entry is None else entry[1]

    def remove(self, param: Param) -> Tensor | None:
        """Take the gradient of `param` out, or None."""
        entry = self._entries.pop(param.id, None)
        return None if entry is None else entry[1]

    def register(self, param: Param, grad: Tensor) -> None:
        """Put a gradient in, in place of the one of the same parameter."""
        self._entries[param.id] = (param, grad)

    def __iter__(self) -> Iterator[tuple[Param, Tensor]]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)
