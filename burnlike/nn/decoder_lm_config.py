"""Config of the decoder-only language model."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ..config import Meta, ModuleConfig

if TYPE_CHECKING:
    import torch

    from .decoder_lm import DecoderLm


class DecoderLmConfig(ModuleConfig, tag="DecoderLm"):
    """A decoder-only transformer: RMS norm before each part, rotary positions, SwiGLU, tied output head.

    Attributes:
        vocab_size: tokens.
        max_sequence_length: longest sequence it can read.
        d_model: size of a position's vector.
        n_layers: blocks.
        n_heads: attention heads of a block; must divide d_model into even parts.
        d_ff: inner size of the feed-forward part.
        dropout: probability of dropping a value of each part's output, and an attention weight, in training.
        theta: base of the rotary frequencies.
        norm_epsilon: epsilon of the norms.
    """

    vocab_size: Annotated[int, Meta(ge=1)]
    max_sequence_length: Annotated[int, Meta(ge=1)]
    d_model: Annotated[int, Meta(ge=1)]
    n_layers: Annotated[int, Meta(ge=1)]
    n_heads: Annotated[int, Meta(ge=1)]
    d_ff: Annotated[int, Meta(ge=1)]
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    theta: Annotated[float, Meta(gt=0)] = 10000.0
    norm_epsilon: Annotated[float, Meta(gt=0)] = 1e-5

    def validate(self) -> Iterable[tuple[str, str]]:
        """The rules that concern several fields."""
        if self.d_model % (2 * self.n_heads):
            yield "n_heads", f"expected heads of even size: d_model ({self.d_model}) / {self.n_heads} is not even"

    def init(self, device: "torch.device | str | None" = None) -> "DecoderLm":
        """Make the model on `device`."""
        from .decoder_lm import DecoderLm

        return DecoderLm(self, device)
