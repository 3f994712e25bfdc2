"""What a decoder keeps of the positions so far."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ShapeError
from ..nn.attention.caches import KeyValueCache


class DecoderCache:
    """The keys and values of each block, in tensors of a fixed size, and which positions are padding.

    Attributes:
        layers: of each block.
        padding: bool `[batch, length]`, True where a token is padding.
    """

    def __init__(self, layers: Sequence[KeyValueCache], padding: Tensor) -> None:
        self.layers, self.padding = layers, padding

    def append(self, tokens: Tensor, mask_pad: Tensor | None) -> tuple[Tensor, Tensor]:
        """Note which of the next tokens `[batch, new]` are padding.

        Returns:
            their positions, int64 `[batch, new]`, and the padding of all slots.

        Raises:
            ShapeError: another batch, or no room is left; compiled code can't tell the latter.
        """
        batch, length = self.padding.shape
        known = 0 if torch.compiler.is_compiling() else int(self.layers[0].filled)
        if tokens.shape[0] != batch or known + tokens.shape[1] > length:
            room = f"[{batch}, sequence <= {length - known}]"
            raise ShapeError(f"DecoderCache: expected tokens {room} where {known} are cached, got {list(tokens.shape)}")
        slots = self.layers[0].next_slots(tokens.shape[1])
        padded = torch.zeros_like(tokens, dtype=torch.bool) if mask_pad is None else mask_pad
        self.padding.index_copy_(1, slots, padded)
        return positions_of(self.padding).index_select(1, slots), self.padding


def positions_of(mask_pad: Tensor) -> Tensor:
    """The position of each token, int64 `[batch, sequence]`, where padding does not count."""
    return ((~mask_pad).cumsum(-1) - 1).clamp(min=0)
