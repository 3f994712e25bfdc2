"""Config of rotary position encoding."""

from typing import TYPE_CHECKING, Annotated

from ..config import Meta, ModuleConfig

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

    max_sequence_length: Annotated[int, Meta(ge=1)]
    d_model: Annotated[int, Meta(ge=2, multiple_of=2)]
    theta: Annotated[float, Meta(gt=0)] = 10000.0

    def init(self, device: "torch.device | str | None" = None) -> "RotaryEncoding":
        """Make the layer on `device`."""
        from .rotary_encoding import RotaryEncoding

        return RotaryEncoding(self, device)
