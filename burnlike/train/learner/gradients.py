"""The gradients of a step, which are those of one batch of all items, however many batches it is made of."""

from torch import Tensor

from ..parallel.single_process import SingleProcess


class Accumulation:
    """Weighs the losses of a step's batches.

    The gradient of a step is that of sum(size * loss) / sum(size). Each loss is multiplied by its size relative to the
    first one's, so that batches of equal size are added as they are, and the sum is divided at the end. Where several
    processes take the mean of their gradients, see `parallel.py`.
    """

    def __init__(self, parallel: SingleProcess) -> None:
        self._parallel = parallel
        self.clear()

    def weighed(self, loss: Tensor, size: int) -> Tensor | None:
        """The loss to differentiate; None for a batch of no items, whose loss is NaN.

        Where other processes wait for this one's gradients, a loss of no items counts 0.
        """
        self._has_batches = True
        if self._reference == 0 and (size or self._parallel.world_size > 1):
            self._reference = self._parallel.reference(size)
        if size == 0:
            return loss.nan_to_num() * 0 if self._parallel.world_size > 1 else None
        self._total += size
        return loss if size == self._reference else loss * (size / self._reference)

    def divisor(self) -> float:
        """What the gradients are to be divided by, 0 if no batch of any process had an item; nothing is left."""
        (total,) = self._parallel.sums([self._total])
        divisor = total / (self._reference * self._parallel.world_size) if total else float(not self._has_batches)
        self.clear()
        return divisor

    def clear(self) -> None:
        self._reference = self._total = 0
        self._has_batches = False
