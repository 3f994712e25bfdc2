"""Gradients: the result of one backward pass, by leaf, and its part of each `.grad`."""

import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Self

from torch import Tensor

from .._torch_compat.fsdp import sharded_form
from ..errors import TensorTypeError, TensorValueError


class LeafGradient:
    """The gradient of one leaf, and what the pass made of the leaf's `.grad`.

    Attributes:
        leaf: a torch tensor or parameter.
        grad: what the pass computed; None while it runs.
        before: what was in `.grad` before the pass.
        left: what the pass left there; None while it runs, and where it left nothing.
        joined: what was in `.grad` when the pass began, where DDP may have reduced it together with the gradient.
    """

    __slots__ = ("before", "grad", "joined", "leaf", "left")

    def __init__(self, leaf: Tensor, grad: Tensor | None, before: Tensor | None = None) -> None:
        self.leaf = leaf
        self.grad = grad
        self.before = before
        self.left: Tensor | None = None
        self.joined: Tensor | None = None


class GradientMap:
    """Leaf -> gradient. Leaves are told apart by identity."""

    def __init__(self) -> None:
        self._by_leaf: dict[int, LeafGradient] = {}

    def register(self, leaf: Tensor, grad: Tensor) -> None:
        """Set the gradient of `leaf`, in place of an earlier one."""
        self._by_leaf[id(leaf)] = LeafGradient(leaf, grad)

    def get(self, leaf: Tensor) -> Tensor | None:
        """The gradient of a torch tensor or parameter, or None."""
        entry = self._entry(leaf)
        return None if entry is None else entry.grad

    def remove(self, leaf: Tensor) -> Tensor | None:
        """Take out the gradient of a torch tensor or parameter and return it; None if there is none."""
        entry = self._entry(leaf)
        if entry is None:
            return None
        del self._by_leaf[id(entry.leaf)]
        return entry.grad

    def _entry(self, leaf: Tensor) -> LeafGradient | None:
        if not isinstance(leaf, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            got = type(leaf).__name__
            raise TensorTypeError(
                "Grad", f"expected a torch tensor or a parameter, got {got}; a typed tensor has x.grad(gradients)"
            )
        return self._by_leaf.get(id(leaf)) or self._by_leaf.get(id(sharded_form(leaf)))

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        return [(value.leaf, value.grad) for value in self._by_leaf.values() if value.grad is not None]

    def __getstate__(self) -> list[tuple[Tensor, Tensor]]:
        return self._pairs()

    def __setstate__(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        self._by_leaf = {id(leaf): LeafGradient(leaf, grad) for leaf, grad in pairs}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copies of the gradients, of the same leaves; of their copies where the leaves have been copied with them."""
        copied = type(self)()
        for leaf, grad in self._pairs():
            copied.register(memo.get(id(leaf), leaf), grad.clone())
        return copied

    def __len__(self) -> int:
        return len(self._by_leaf)

    def __repr__(self) -> str:
        shapes = ", ".join(str(list(grad.shape)) for _, grad in self._pairs())
        return f"{type(self).__name__}({len(self)} leaves: {shapes})"


# Passes find by these what earlier ones left in `.grad`. The lock also guards the entries' `before` and `left`.
_LIVE: "weakref.WeakSet[Gradients]" = weakref.WeakSet()
_LOCK = threading.RLock()


class Gradients(GradientMap):
    """The gradients of the leaves that a backward pass reached, without history.

    A tensor's own `grad(gradients)` and `grad_remove(gradients)` read it; `get(parameter)` for torch parameters. The
    pass has added them to `.grad` too, and what is taken out of here, or replaced, is so in `.grad` as well: it is
    then what it would be had the pass not reached that leaf. Where `.grad` was cleared or set since, it stays as it is.
    Copies are containers only: they leave `.grad` alone.
    """

    def register(self, leaf: Tensor, grad: Tensor) -> None:
        """Set the gradient of `leaf`, in place of an earlier one, also in its `.grad`."""
        with _LOCK:
            entry = self._entry(leaf)
            if entry is None or entry.left is None:
                super().register(leaf, grad)
            else:
                entry.grad = grad
                _put(entry, total(entry.before, grad))

    def remove(self, leaf: Tensor) -> Tensor | None:
        """Take out the gradient of a torch tensor or parameter, also from its `.grad`; None if there is none.

        Raises:
            TensorValueError: `.grad` had gradients of earlier passes when the pass began, and DDP may have reduced
                them with this one; nothing has changed.
        """
        with _LOCK:
            entry = self._entry(leaf)
            if entry is not None and entry.joined is not None and entry.before is not None:
                raise TensorValueError(
                    "Grad Remove",
                    "in a process group DDP reduces a gradient together with what is in .grad, so it can't be taken out"
                    " alone: take all of them by GradientsParams.from_module(module), or call zero_grad() before"
                    " backward()",
                )
            grad = super().remove(leaf)
            if entry is not None and entry.left is not None:
                _put(entry, entry.before)
            return grad

    def begin(self, leaves: Sequence[Tensor]) -> list[LeafGradient]:
        """Empty the `.grad` of the leaves that a pass is about to reach, and note what was there."""
        with _LOCK:
            entries = [LeafGradient(leaf, None, leaf.grad) for leaf in leaves]
            # torch adds to what is there, in place: where nothing is, it leaves the gradient of this pass alone.
            for leaf in leaves:
                leaf.grad = None
            self._by_leaf = {id(entry.leaf): entry for entry in entries}
            _LIVE.add(self)
        return entries

    def end(self, left_grads: Iterable[tuple[LeafGradient, Tensor | None]]) -> None:
        """Take what torch's pass left in `.grad`, None where it computed nothing, and let `.grad` be the sums."""
        with _LOCK:
            for entry, grad in left_grads:
                if grad is None:
                    entry.leaf.grad = entry.before
                    del self._by_leaf[id(entry.leaf)]
                elif entry.joined is None:
                    entry.grad = grad
                    entry.leaf.grad = entry.left = total(entry.before, grad)
                else:
                    entry.grad = grad - entry.joined
                    entry.left = grad if entry.before is entry.joined else total(entry.before, entry.grad)
                    entry.leaf.grad = entry.left


class TrackedGradients(GradientMap):
    """The gradients of `backward(create_graph=True)`: tracked, so that they can be differentiated again.

    They are in no `.grad`: a leaf and its tracked gradient would keep each other alive.
    """


def total(before: Tensor | None, grad: Tensor) -> Tensor:
    """The new `.grad` after a gradient was added: a new tensor, or where there was none the gradient itself."""
    if before is None:
        return grad
    # torch adds a sparse tensor to a dense one, not the other way around.
    return grad + before if before.is_sparse else before + grad


def _put(entry: LeafGradient, grad: Tensor | None) -> None:
    """Let `grad` be what the pass left in `.grad`, and add again what later passes have added to it."""
    leaf, old = entry.leaf, entry.left
    later: list[LeafGradient] = []
    while old is not None and old is not leaf.grad:
        following = next(
            (later_entry for its in _LIVE if (later_entry := its._by_leaf.get(id(leaf))) and later_entry.before is old),
            None,
        )
        if following is None:
            return  # `.grad` was cleared or set, or is what a pass left whose Gradients are gone
        later.append(following)
        old = following.left
    entry.left = grad
    for later_entry in later:
        later_entry.before = grad
        if later_entry.grad is None:
            return  # this pass is still running, in another thread; it adds to `before` when it ends
        grad = later_entry.left = total(grad, later_entry.grad)
    leaf.grad = grad
