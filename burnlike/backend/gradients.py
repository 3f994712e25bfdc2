"""Gradients: what one backward pass computed, by leaf."""

from typing import Any, Self

from torch import Tensor

from .._fsdp import sharded_form
from ..errors import TensorTypeError


class GradientMap:
    """Leaf -> gradient. Leaves are told apart by identity; nothing is left in any `.grad`."""

    def __init__(self) -> None:
        self._by_leaf: dict[int, tuple[Tensor, Tensor]] = {}

    def register(self, leaf: Tensor, grad: Tensor) -> None:
        """Put the gradient of `leaf` in, in place of an earlier one."""
        self._by_leaf[id(leaf)] = (leaf, grad)

    def get(self, leaf: Tensor) -> Tensor | None:
        """The gradient of a torch tensor or parameter, or None."""
        found = self._by_leaf.get(id(_leaf(leaf))) or self._by_leaf.get(id(sharded_form(leaf)))
        return None if found is None else found[1]

    def remove(self, leaf: Tensor) -> Tensor | None:
        """Take the gradient of a torch tensor or parameter out, or None."""
        found = self._by_leaf.pop(id(_leaf(leaf)), None) or self._by_leaf.pop(id(sharded_form(leaf)), None)
        return None if found is None else found[1]

    def __getstate__(self) -> list[tuple[Tensor, Tensor]]:
        return list(self._by_leaf.values())

    def __setstate__(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        self._by_leaf = {id(leaf): (leaf, grad) for leaf, grad in pairs}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copies of the gradients, of the same leaves; of their copies where the leaves have been copied with them."""
        copied = type(self)()
        for leaf, grad in self._by_leaf.values():
            copied.register(memo.get(id(leaf), leaf), grad.clone())
        return copied

    def __len__(self) -> int:
        return len(self._by_leaf)

    def __repr__(self) -> str:
        shapes = ", ".join(str(list(grad.shape)) for _, grad in self._by_leaf.values())
        return f"{type(self).__name__}({len(self)} leaves: {shapes})"


def _leaf(leaf: Any) -> Tensor:
    if not isinstance(leaf, Tensor):
        raise TensorTypeError(
            "Grad",
            f"expected a torch tensor or a parameter, got {type(leaf).__name__}; a typed tensor has x.grad(gradients)",
        )
    return leaf


class Gradients(GradientMap):
    """The gradients of the leaves that a backward pass reached, without history.

    A tensor's own `grad(gradients)` and `grad_remove(gradients)` read it; `get(parameter)` for torch parameters.
    """


class TrackedGradients(GradientMap):
    """The gradients of `backward(create_graph=True)`: tracked, so that they can be differentiated again."""
