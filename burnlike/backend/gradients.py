"""Gradients: what one backward pass computed, by leaf."""

from torch import Tensor


class GradientMap:
    """Leaf -> gradient. Leaves are told apart by identity; nothing is left in any `.grad`."""

    def __init__(self) -> None:
        self._by_leaf: dict[int, tuple[Tensor, Tensor]] = {}

    def register(self, leaf: Tensor, grad: Tensor) -> None:
        """Put the gradient of `leaf` in, in place of an earlier one."""
        self._by_leaf[id(leaf)] = (leaf, grad)

    def get(self, leaf: Tensor) -> Tensor | None:
        """The gradient of a torch tensor or parameter, or None."""
        found = self._by_leaf.get(id(leaf))
        return None if found is None else found[1]

    def remove(self, leaf: Tensor) -> Tensor | None:
        """Take the gradient of a torch tensor or parameter out, or None."""
        found = self._by_leaf.pop(id(leaf), None)
        return None if found is None else found[1]

    def __len__(self) -> int:
        return len(self._by_leaf)

    def __repr__(self) -> str:
        shapes = ", ".join(str(list(grad.shape)) for _, grad in self._by_leaf.values())
        return f"{type(self).__name__}({len(self)} leaves: {shapes})"


class Gradients(GradientMap):
    """The gradients of the leaves that a backward pass reached, without history.

    A tensor's own `grad(gradients)` and `grad_remove(gradients)` read it; `get(parameter)` for torch parameters.
    """


class TrackedGradients(GradientMap):
    """The gradients of `backward(create_graph=True)`: tracked, so that they can be differentiated again."""
