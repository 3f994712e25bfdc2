"""A bidirectional encoder in the layout of BERT."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..module import Content, Module
from ..nn.attention.configs import MultiHeadAttentionConfig
from ..nn.dropout.configs import DropoutConfig
from ..nn.embedding.configs import EmbeddingConfig
from ..nn.initializers.configs import Normal, Zeros
from ..nn.layer import expect_shape, shape_error
from ..nn.linear.configs import LinearConfig
from ..nn.norm.configs import LayerNormConfig
from ..ops import linear
from ..tensor.torch_bridge.torch_function import lift
from .language_configs import BertClassifierConfig, BertEncoderConfig, BertMaskedLmConfig

INITIALIZER = Normal(std=0.02)
"""Of all weights (Devlin et al. 2019, their program)."""


class BertOutput(NamedTuple):
    """The last layer's `[batch, sequence, d_model]`, and `[batch, d_model]` of the pooler, None without one."""

    hidden: Tensor
    pooled: Tensor | None


class BertEmbeddings(Module):
    """norm(token + token type + position), with dropout."""

    def __init__(self, config: BertEncoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        table = EmbeddingConfig(n_embedding=config.vocab_size, d_model=config.d_model, initializer=INITIALIZER)
        self.token = table.init(device)
        self.position = table.replace(n_embedding=config.max_sequence_length).init(device)
        self.token_type = table.replace(n_embedding=config.n_token_types).init(device)
        self.norm = LayerNormConfig(d_model=config.d_model, epsilon=config.norm_epsilon).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()

    @lift
    def forward(self, tokens: Tensor, token_types: Tensor | None = None) -> Tensor:
        """Int64 `[batch, sequence]`, twice `-> [batch, sequence, d_model]`; without types all are 0."""
        types = self.token_type.weight[0] if token_types is None else self.token_type(token_types)
        x = self.token(tokens) + types + self.position.weight[: tokens.shape[1]]
        return self.dropout(self.norm(x))


class BertLayer(Module):
    """norm(y + feed_forward(y)) of y = norm(x + attention(x)); no dropout within the feed-forward part."""

    def __init__(self, config: BertEncoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        norm = LayerNormConfig(d_model=config.d_model, epsilon=config.norm_epsilon)
        self.attention = MultiHeadAttentionConfig(
            d_model=config.d_model, n_heads=config.n_heads, dropout=config.attention_dropout, initializer=INITIALIZER
        ).init(device)
        self.norm_attention = norm.init(device)
        inner = LinearConfig(d_input=config.d_model, d_output=config.d_ff, initializer=INITIALIZER)
        self.linear_inner = inner.init(device)
        self.activation = config.activation.init(device)
        self.linear_outer = inner.replace(d_input=config.d_ff, d_output=config.d_model).init(device)
        self.norm_feed_forward = norm.init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()

    @lift
    def forward(self, x: Tensor, mask_pad: Tensor | None = None) -> Tensor:
        """`[batch, sequence, d_model] -> [batch, sequence, d_model]`; `mask_pad` is True where a position is hidden."""
        attended = self.attention(x, mask_pad=mask_pad, need_weights=False).context
        x = self.norm_attention(x + self.dropout(attended))
        inner = self.activation(self.linear_inner(x))
        return self.norm_feed_forward(x + self.dropout(self.linear_outer(inner)))


class BertEncoder(Module):
    """Token numbers to a vector for each position, which knows those on both sides (Devlin et al. 2019).

    Attributes:
        pooler: Linear `d_model -> d_model`, or None.
    """

    def __init__(self, config: BertEncoderConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config, device)
        self.layers = nn.ModuleList(BertLayer(config, device) for _ in range(config.n_layers))
        pooler = LinearConfig(d_input=config.d_model, d_output=config.d_model, initializer=INITIALIZER)
        self.pooler = pooler.init(device) if config.pooler else None

    @lift
    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> BertOutput:
        """Encode sequences of tokens.

        Args:
            tokens: int64 `[batch, sequence]` in 0..vocab_size-1.
            attention_mask: `[batch, sequence]`, 0 (or False) where a token is padding, which no position sees.
            token_types: int64 `[batch, sequence]` in 0..n_token_types-1; None for zeros.

        Raises:
            ShapeError: the sequence is longer than `max_sequence_length`, or an input has another shape.
        """
        longest = self.config.max_sequence_length
        if tokens.ndim != 2 or tokens.shape[1] > longest:
            raise shape_error(self, f"[batch, sequence <= {longest}]", list(tokens.shape), name="tokens")
        for name, given in (("attention_mask", attention_mask), ("token_types", token_types)):
            if given is not None:
                expect_shape(self, given, *tokens.shape, name=name)
        mask_pad = None if attention_mask is None else attention_mask == 0
        x = self.embeddings(tokens, token_types)
        for layer in self.layers:
            x = layer(x, mask_pad)
        return BertOutput(x, None if self.pooler is None else self.pooler(x[:, 0]).tanh())

    def custom_content(self, content: Content) -> Content:
        content = content.add("embeddings", self.embeddings).add("layers", self.layers)
        return content if self.pooler is None else content.add("pooler", self.pooler)


class BertMaskedLm(Module):
    """The logits of each position's token: norm(activation(linear(hidden))) @ embedding^T + bias."""

    def __init__(self, config: BertMaskedLmConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        encoder = config.encoder
        self.encoder = encoder.init(device)
        size = encoder.d_model
        self.linear = LinearConfig(d_input=size, d_output=size, initializer=INITIALIZER).init(device)
        self.activation = encoder.activation.init(device)
        self.norm = LayerNormConfig(d_model=size, epsilon=encoder.norm_epsilon).init(device)
        self.bias = Zeros().init([encoder.vocab_size], device=device)

    @lift
    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """The arguments of `BertEncoder` `-> [batch, sequence, vocab_size]` logits; the same errors."""
        hidden = self.encoder(tokens, attention_mask, token_types).hidden
        hidden = self.norm(self.activation(self.linear(hidden)))
        return linear(hidden, self.encoder.embeddings.token.weight, self.bias)

    def custom_content(self, content: Content) -> Content:
        return content.add("encoder", self.encoder).add("linear", self.linear).add("norm", self.norm)


class BertClassifier(Module):
    """The logits of a sequence's classes, by a linear map of the pooled vector."""

    def __init__(self, config: BertClassifierConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.encoder = config.encoder.init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        head = LinearConfig(d_input=config.encoder.d_model, d_output=config.n_classes, initializer=INITIALIZER)
        self.head = head.init(device)

    @lift
    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """The arguments of `BertEncoder` `-> [batch, n_classes]` logits; the same errors."""
        return self.head(self.dropout(self.encoder(tokens, attention_mask, token_types).pooled))

    def custom_content(self, content: Content) -> Content:
        return content.add("encoder", self.encoder).add("dropout", self.dropout).add("head", self.head)
