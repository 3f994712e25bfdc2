"""An encoder-decoder in the layout of T5."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from ...module import Content, Module
from ...nn.attention.configs import RelativePositionBiasConfig
from ...nn.configs import DropoutConfig, EmbeddingConfig
from ...nn.initializers.configs import Normal
from ...nn.layer import divided_sequences, expect_shape
from ...tensor.torch_bridge.torch_function import lift
from ..generation import GenerateOptions, Reader, gathers_as_forward, generate
from ..native_model import decodes_natively
from .configs import EncoderDecoderConfig
from .layers import Device, EncoderDecoderLayer, LayerCache, linear, norm_of
from .native_steps import NativeSteps, encoded


class EncoderDecoderCache:
    """Keys, values and results of a decoder's earlier positions, by layer."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """The number of its positions."""
        return self.layers[0].attention.key.length(2)

    def reorder(self, rows: Tensor) -> None:
        """Let each row go on with the positions of another, int64 `[batch]`, of the same memory."""
        for layer in self.layers:
            for cached in (layer.attention.key, layer.attention.value):
                cached.tensor = None if cached.tensor is None else cached.tensor[rows]


@decodes_natively
class Encoder(Module):
    """Layers that see all positions, with one bias for relative positions."""

    def __init__(self, config: EncoderDecoderConfig, device: Device = None) -> None:
        super().__init__()
        self.position_bias = _position_bias(config, device, bidirectional=True)
        self.layers = nn.ModuleList(EncoderDecoderLayer(config, device) for _ in range(config.n_layers))
        self.norm = norm_of(config, device)
        self.dropout = DropoutConfig(prob=config.dropout).init()

    def parallel_plan(self) -> Mapping[str, str]:
        """Between the layers each process has a part of each sequence."""
        return divided_sequences("layers", self.layers)

    @lift
    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """`[batch, sequence, d_model] -> [batch, sequence, d_model]`; `hidden` is bool `[batch, sequence]`."""
        bias = self.position_bias(x.shape[1], x.shape[1])
        if hidden is not None:
            bias = bias.masked_fill(hidden[:, None, None], _hidden_score(bias.dtype))
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, bias)
        return self.dropout(self.norm(x))


@decodes_natively
class Decoder(Module):
    """Layers that see earlier positions and the memory, with one bias for relative positions."""

    def __init__(self, config: EncoderDecoderConfig, device: Device = None) -> None:
        super().__init__()
        n_layers = config.n_decoder_layers or config.n_layers
        self.position_bias = _position_bias(config, device, bidirectional=False)
        self.layers = nn.ModuleList(EncoderDecoderLayer(config, device, decodes=True) for _ in range(n_layers))
        self.norm = norm_of(config, device)
        self.dropout = DropoutConfig(prob=config.dropout).init()

    def parallel_plan(self) -> Mapping[str, str]:
        """As of `Encoder`."""
        return divided_sequences("layers", self.layers)

    @lift
    def forward(
        self, x: Tensor, memory: Tensor, hidden: Tensor | None = None, cache: EncoderDecoderCache | None = None
    ) -> Tensor:
        """`[batch, length, d_model] -> [batch, length, d_model]`; `hidden` is bool `[batch, keys]`, of the memory."""
        start = 0 if cache is None else cache.length
        length = start + x.shape[1]
        bias = self.position_bias(x.shape[1], length, start)
        later = torch.ones(x.shape[1], length, dtype=torch.bool, device=x.device).triu(start + 1)
        bias = bias.masked_fill(later, _hidden_score(bias.dtype))
        memory_bias = None
        if hidden is not None:
            hidden = hidden[:, None, None]
            memory_bias = torch.zeros_like(hidden, dtype=bias.dtype).masked_fill(hidden, _hidden_score(bias.dtype))
        x = self.dropout(x)
        for index, layer in enumerate(self.layers):
            x = layer(x, bias, memory, memory_bias, None if cache is None else cache.layers[index])
        return self.dropout(self.norm(x))


@decodes_natively
class EncoderDecoder(Module):
    """Two sequences of tokens to the logits of the second one's next tokens (Raffel et al. 2020, section 2.1).

    Attributes:
        embedding: of the tokens of both sequences.
        head: Linear `d_model -> vocab_size`, or None where the embedding is the head.
    """

    def __init__(self, config: EncoderDecoderConfig, device: Device = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = EmbeddingConfig(n_embedding=config.vocab_size, d_model=config.d_model).init(device)
        self.encoder = Encoder(config, device)
        self.decoder = Decoder(config, device)
        size = config.d_model
        self.head = None if config.tied_head else linear(size, config.vocab_size, size**-0.5, device)

    def pipeline_stages(self) -> Mapping[str, str]:
        """Nowhere: every block of the decoder needs what the encoder gives."""
        return {}

    def parallel_plan(self) -> Mapping[str, str]:
        """Processes share the tokens' vectors and logits."""
        return {"embedding": "embedding", "head": "vocab"}

    @lift
    def forward(self, tokens: Tensor, decoder_tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The logits of each next token of the second sequence, `[batch, length, vocab_size]`.

        Args:
            tokens: int64 `[batch, sequence]`, the first sequence.
            decoder_tokens: int64 `[batch, length]`, the second one: a start token, then what follows.
            attention_mask: `[batch, sequence]`, 0 (or False) where a token of the first sequence is padding.
        """
        return self._decode(decoder_tokens, self._encode(tokens, attention_mask), attention_mask, None)

    @lift
    def encode(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The memory that the decoder reads: int64 `[batch, sequence] -> [batch, sequence, d_model]`."""
        return self._encode(tokens, attention_mask)

    @lift
    def decode(
        self,
        decoder_tokens: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
    ) -> Tensor:
        """As `forward`, of a memory that is encoded already, and only of the positions that `cache` does not have.

        Args:
            decoder_tokens: int64 `[batch, length]`; with a cache only the new tokens.
            memory: `[batch, sequence, d_model]`; with a cache what is in it matters in the first call only.
            attention_mask: as of `encode`.
            cache: of the calls before, from `new_cache`; it is changed.
        """
        return self._decode(decoder_tokens, memory, attention_mask, cache)

    def new_cache(self) -> EncoderDecoderCache:
        return EncoderDecoderCache(len(self.decoder.layers))

    def generate(
        self,
        tokens: Tensor,
        max_new_tokens: int,
        *,
        attention_mask: Tensor | None = None,
        start_token: int = 0,
        **options: Unpack[GenerateOptions],
    ) -> Tensor:
        """Write second sequences token by token, in evaluation mode and without gradients; see `GenerateOptions`.

        Int64 `[batch, sequence]`, the first sequences, and their mask `-> [batch, 1 + up to max_new_tokens]`, the start
        token first.
        """
        expect_shape(self, tokens, "batch", "sequence", name="tokens")
        reader = self.reader(tokens, attention_mask=attention_mask, start_token=start_token)
        return generate(self, reader, max_new_tokens, **options)

    def reader(
        self,
        prompt: Tensor,
        length: int | None = None,
        mask_pad: Tensor | None = None,
        *,
        attention_mask: Tensor | None = None,
        start_token: int = 0,
    ) -> Reader:
        """A Reader of second sequences of any length; see `models.generation.Reader`.

        Padding of the first ones is where `mask_pad` is True, or `attention_mask` False or 0.
        """
        attention_mask = attention_mask if mask_pad is None else ~mask_pad
        gathers_as_forward(self, "encode", "decode")
        memory: Tensor | None = None
        cache, steps = self.new_cache(), None

        def next_logits(new: Tensor, *, unchanged: bool = False) -> Tensor:
            nonlocal memory, steps
            if memory is None:
                memory = encoded(self.encode, prompt, attention_mask)
                steps = NativeSteps.begin(self, memory, attention_mask)
            if steps is not None:
                if (logits := steps.next_logits(new, unchanged=unchanged)) is not None:
                    return logits
                steps.hand_back(cache)
                steps = None
            return self.decode(new, memory, attention_mask, cache)[:, -1]

        return Reader(
            torch.full_like(prompt[:, :1], start_token),
            next_logits,
            reorder=lambda rows: (steps or cache).reorder(rows),
            next_unchanged=partial(next_logits, unchanged=True),
        )

    def _encode(self, tokens: Tensor, attention_mask: Tensor | None) -> Tensor:
        expect_shape(self, tokens, "batch", "sequence", name="tokens")
        if attention_mask is not None:
            expect_shape(self, attention_mask, *tokens.shape, name="attention_mask")
        return self.encoder(self.embedding(tokens), _hidden(attention_mask))

    def _decode(
        self, tokens: Tensor, memory: Tensor, attention_mask: Tensor | None, cache: EncoderDecoderCache | None
    ) -> Tensor:
        expect_shape(self, tokens, memory.shape[0], "length", name="decoder_tokens")
        expect_shape(self, memory, "batch", "sequence", self.config.d_model, name="memory")
        if attention_mask is not None:
            expect_shape(self, attention_mask, *memory.shape[:2], name="attention_mask")
        x = self.decoder(self.embedding(tokens), memory, _hidden(attention_mask), cache)
        return self.embedding.project(x * x.shape[-1] ** -0.5) if self.head is None else self.head(x)

    def custom_content(self, content: Content) -> Content:
        content = content.add("embedding", self.embedding).add("encoder", self.encoder).add("decoder", self.decoder)
        return content if self.head is None else content.add("head", self.head)


def _position_bias(config: EncoderDecoderConfig, device: Device, *, bidirectional: bool) -> Any:
    return RelativePositionBiasConfig(
        n_heads=config.n_heads,
        n_buckets=config.n_buckets,
        max_distance=config.max_distance,
        bidirectional=bidirectional,
        initializer=Normal(std=config.d_model**-0.5),
    ).init(device)


def _hidden_score(dtype: torch.dtype) -> float:
    """The bias of a hidden key: below every score, which are not scaled here, and finite beside them."""
    return torch.finfo(dtype).min / 2


def _hidden(attention_mask: Tensor | None) -> Tensor | None:
    return None if attention_mask is None else attention_mask == 0
