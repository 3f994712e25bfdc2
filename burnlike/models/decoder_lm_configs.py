"""The config of the decoder-only language model. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ..config import Meta, ModuleConfig
from ..config.bounds import Layers, Positive, Size

if TYPE_CHECKING:
    import torch

    from .decoder_lm import DecoderLm

Probability = Annotated[float, Meta(ge=0, lt=1)]


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

    vocab_size: Size
    max_sequence_length: Size
    d_model: Size
    n_layers: Layers
    n_heads: Size
    d_ff: Size
    dropout: Probability = 0.0
    theta: Positive = 10000.0
    norm_epsilon: Positive = 1e-5

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.d_model % (2 * self.n_heads):
            yield "n_heads", f"expected heads of even size: d_model ({self.d_model}) / {self.n_heads} is not even"

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"tokens": ("int64", (1, self.max_sequence_length))}

    def init(self, device: "torch.device | str | None" = None) -> "DecoderLm":
        from .decoder_lm import DecoderLm

        return DecoderLm(self, device)
