"""The layer that changes nothing."""

from torch import Tensor

from ..call_types import KeepsType
from ..layer import Layer


class Identity(KeepsType, Layer):
    """y = x, in place of a layer that is left out.

    Torch: `nn.Identity`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`, x itself."""
        return x
