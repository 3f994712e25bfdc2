"""What attention has computed of earlier positions."""

from collections.abc import Callable

import torch
from torch import Tensor


class TensorCache:
    """A tensor that grows along one dimension, or is computed once.

    Attributes:
        tensor: what there is so far; None at first.
    """

    def __init__(self) -> None:
        self.tensor: Tensor | None = None

    def append(self, new: Tensor, dim: int) -> Tensor:
        """All there is so far with `new` at the end of `dim`."""
        self.tensor = new if self.tensor is None else torch.cat((self.tensor, new), dim)
        return self.tensor

    def once(self, make: Callable[[], Tensor]) -> Tensor:
        """What `make` returned the first time."""
        if self.tensor is None:
            self.tensor = make()
        return self.tensor

    def length(self, dim: int) -> int:
        """The size of `dim`, 0 at first."""
        return 0 if self.tensor is None else self.tensor.shape[dim]
