"""Collects the gradients of the micro-batches of one step."""

from torch import nn

from ...optim import GradientsAccumulator, GradientsParams


class MicroBatches:
    """Collects what one step is taken with; the gradients of a single micro-batch are handed on as they are."""

    def __init__(self) -> None:
        self._only: tuple[nn.Module, GradientsParams, int] | None = None
        self._accumulator = GradientsAccumulator()

    def add(self, model: nn.Module, grads: GradientsParams, items: int) -> None:
        """Add the gradients of a mean over `items` items; of none, which is NaN, nothing is added."""
        if items == 0:
            return
        if self._only is None and len(self._accumulator) == 0:
            self._only = model, grads, items
            return
        if self._only is not None:
            self._accumulator.accumulate(*self._only)
            self._only = None
        self._accumulator.accumulate(model, grads, items)

    def take(self) -> GradientsParams:
        """The gradients of the mean over all items; nothing is left."""
        if self._only is None:
            return self._accumulator.grads()
        _, grads, _ = self._only
        self._only = None
        return grads

    def clear(self) -> None:
        """Forget what was added."""
        self._only = None
        self._accumulator.reset()
