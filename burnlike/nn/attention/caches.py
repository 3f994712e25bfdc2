"""What attention has computed of earlier positions."""

from collections.abc import Callable

import torch
from torch import Tensor


class TensorCache:
    """A tensor that grows along one dimension, or is computed once; `tensor` is None at first."""

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


class KeyValueCache:
    """Keys and values of the positions so far, in tensors of a fixed size, so that compiled code is compiled once.

    Attributes:
        key, value: `[batch, n_heads_kv, length, d_head]`; what is not filled yet is 0.
        filled: int64 `[]`, how many of the `length` slots are filled.
    """

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self.key, self.value = key, value
        self.filled = torch.zeros((), dtype=torch.int64, device=key.device)

    @property
    def length(self) -> int:
        """How many positions there is room for."""
        return self.key.shape[2]

    def next_slots(self, new: int) -> Tensor:
        """The slots of the next `new` positions, int64 `[new]`.

        Whether there is room is the caller's to check: the number of filled slots is on the device.
        """
        return self.filled + torch.arange(new, device=self.filled.device)

    def write(self, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Write keys and values `[batch, n_heads_kv, new, d_head]` into the next slots, in the cache's element type."""
        self.key.index_copy_(2, slots, key.to(self.key.dtype))
        self.value.index_copy_(2, slots, value.to(self.value.dtype))
        self.filled.add_(key.shape[2])
