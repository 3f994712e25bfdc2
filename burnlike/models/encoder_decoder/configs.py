"""The config of encoder-decoders. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Layers, Positive, Size
from ...nn.activation.configs import ReluConfig
from ...nn.attention.configs import Buckets, LongestDistance, Probability
from ...nn.roles import ActivationConfig

if TYPE_CHECKING:
    from . import model


class EncoderDecoderConfig(ModuleConfig["model.EncoderDecoder"], tag="EncoderDecoder"):
    """From one sequence of tokens to another: RMS norm before each part, relative positions, no biases (T5).

    Raffel et al. 2020, section 2.1. With `gated` and an untied head it is T5 1.1 (Shazeer 2020).

    Attributes:
        vocab_size: tokens, those of both sequences.
        d_model: size of a position's vector.
        n_layers: layers of the encoder.
        n_heads: attention heads of a layer.
        d_head: size of a head; n_heads * d_head may be other than d_model.
        d_ff: inner size of the feed-forward parts.
        n_decoder_layers: layers of the decoder; None for as many as the encoder has.
        gated: whether the activation is multiplied by another linear map of the same vector.
        dropout: probability of dropping an attention weight, an inner value, and a value of each part's output.
        n_buckets: ranges of distances between positions, even; see `RelativePositionBias`.
        max_distance: from here on all distances are in one range.
        tied_head: whether the head is the transposed embedding, of vectors divided by the square root of d_model.
    """

    vocab_size: Size
    d_model: Size
    n_layers: Layers
    n_heads: Size
    d_head: Size
    d_ff: Size
    n_decoder_layers: Layers | None = None
    activation: ActivationConfig = ReluConfig()
    gated: bool = False
    dropout: Probability = 0.1
    n_buckets: Buckets = 32
    max_distance: LongestDistance = 128
    tied_head: bool = True
    norm_epsilon: Positive = 1e-6

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.n_buckets % 2 or self.n_buckets < 4:
            yield "n_buckets", f"expected an even number from 4 on, got {self.n_buckets}"
        if self.max_distance <= self.n_buckets // 2:
            most = f"more than n_buckets / 2 ({self.n_buckets // 2}), up to where each distance has a bucket"
            yield "max_distance", f"expected {most}, got {self.max_distance}"

    @property
    def input_counts(self) -> tuple[int, int | None]:
        return 2, 3

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"tokens": ("int64", (1, 32)), "decoder_tokens": ("int64", (1, 32))}
