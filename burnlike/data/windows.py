"""Windows over a long row of tokens, and the batcher that stacks them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import DataError


class TokenWindows:
    """Windows of `length + 1` tokens: a model reads the first `length` and predicts the last `length`.

    Windows start every `stride` tokens; those that would reach past the end are left out. With the default stride every
    token but the first is predicted exactly once (the last, incomplete window apart).
    """

    draws = False

    def __init__(self, tokens: Tensor, length: int, stride: int | None = None, fingerprint: str | None = None) -> None:
        """Make the windows; nothing is copied.

        Args:
            tokens: `[n]`, of any integer dtype.
            length: tokens that a model reads.
            stride: distance of the starts of two windows, >= 1; default: `length`.
            fingerprint: a hash of the data, by which a loader's saved position knows it again.

        Raises:
            DataError: there are too few tokens for one window.
        """
        if len(tokens) < length + 1:
            raise DataError(f"expected at least {length + 1} tokens for one window of {length}, got {len(tokens)}")
        self.tokens = tokens
        self.length = length
        self.stride = length if stride is None else stride
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return (len(self.tokens) - self.length - 1) // self.stride + 1

    def __getitem__(self, index: int, /) -> Tensor:
        """`[length + 1]`, a view of the tokens."""
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        start = index * self.stride
        return self.tokens[start : start + self.length + 1]


class TokenBatcher:
    """Stacks windows into one batch of int64."""

    def batch(self, items: Sequence[Tensor], device: torch.device) -> Tensor:
        """`[n]` each -> `[batch, n]`, int64, on `device`."""
        stacked = torch.stack(list(items))
        if device.type == "cuda":
            # bytes travel, not int64; from pinned memory the copy runs beside the step before
            return stacked.pin_memory().to(device, non_blocking=True).long()
        return stacked.to(device).long()
