"""Config of rotary position encoding."""

from typing import TYPE_CHECKING

from ..config import ModuleConfig
from ..config.bounds import EvenSize, Positive, Size

if TYPE_CHECKING:
    import torch

    from .rotary_encoding import RotaryEncoding


class RotaryEncodingConfig(ModuleConfig, tag="RotaryEncoding"):
    """Positions as rotations of pairs of values (Su et al. 2021).

    Attributes:
        max_sequence_length: positions that the table holds.
        d_model: size of the last dimension, even; in attention that of one head.
        theta: base of the frequencies.
    """

    max_sequence_length: Size
    d_model: EvenSize
    theta: Positive = 10000.0

    def init(self, device: "torch.device | str | None" = None) -> "RotaryEncoding":
        """Make the layer on `device`."""
        from .rotary_encoding import RotaryEncoding

        return RotaryEncoding(self, device)
