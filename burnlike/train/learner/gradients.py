"""The gradients of a step, which are those of one batch of all items, however many batches it is made of."""

from torch import Tensor


class Accumulation:
    """Weighs the losses of a step's batches.

    The gradient of a step is that of sum(size * loss) / sum(size). Each loss is multiplied by its size relative to the
    first one's, so that batches of equal size are added as they are, and the sum is divided at the end.
    """

    def __init__(self) -> None:
        self._first = 0
        self._total = 0

    def weighed(self, loss: Tensor, size: int) -> Tensor | None:
        """The loss to differentiate; None for a batch of no items, whose loss is NaN."""
        if size == 0:
            return None
        self._first = self._first or size
        self._total += size
        return loss if size == self._first else loss * (size / self._first)

    def divisor(self) -> float:
        """What the gradients are to be divided by; nothing is left."""
        divisor = self._total / self._first if self._first else 1.0
        self.clear()
        return divisor

    def clear(self) -> None:
        """Forget the batches."""
        self._first = self._total = 0
