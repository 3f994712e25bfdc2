"""The configs of attention and of the encodings of positions. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import EvenSize, Positive, Size
from ..initializers.configs import Initializer, KaimingUniform

if TYPE_CHECKING:
    import torch

    from .causal_attention import CausalAttention
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
        from .rotary_encoding import RotaryEncoding

        return RotaryEncoding(self, device)


class CausalAttentionConfig(ModuleConfig, tag="CausalAttention"):
    """Multi-head self-attention in which a position sees itself and what lies before it.

    Attributes:
        d_model: size of the last dimension.
        n_heads: heads; must divide d_model.
        dropout: probability of dropping an attention weight in training.
        initializer: of the query, key and value projections.
        output_initializer: of the output projection.
    """

    d_model: Size
    n_heads: Size
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    initializer: Initializer = KaimingUniform()
    output_initializer: Initializer = KaimingUniform()

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads:
            yield "n_heads", f"expected a divisor of d_model ({self.d_model}), got {self.n_heads}"

    def init(
        self, device: "torch.device | str | None" = None, rotary: "RotaryEncoding | None" = None
    ) -> "CausalAttention":
        """Make the layer on `device`; queries and keys are rotated by `rotary` if it is given."""
        from .causal_attention import CausalAttention

        return CausalAttention(self, device, rotary)
