"""Encoders: of text in the layout of BERT, and vision transformers."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...module import Content, Module
from ...nn.attention.configs import MultiHeadAttentionConfig
from ...nn.blocks.configs import PatchEmbeddingConfig
from ...nn.configs import DropoutConfig, DropPathConfig, EmbeddingConfig, LinearConfig
from ...nn.divided_sequence import positions_in
from ...nn.initializers.configs import Normal, Zeros
from ...nn.layer import divided_sequences, expect_shape, shape_error
from ...nn.norm.configs import LayerNormConfig
from ...nn.padding import each
from ...tensor.torch_bridge.torch_function import lift
from .configs import BertClassifierConfig, BertEncoderConfig, BertMaskedLmConfig, VisionTransformerConfig

INITIALIZER = Normal(std=0.02)
"""Of all weights (Devlin et al. 2019 and Dosovitskiy et al. 2021, their programs)."""


class BertOutput(NamedTuple):
    """The last layer's `[batch, sequence, d_model]`, and `[batch, d_model]` of the pooler, None without one."""

    hidden: Tensor
    pooled: Tensor | None


_BETWEEN = dict.fromkeys(("norm_attention", "norm_feed_forward", "dropout"), "sequence")


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
        x = self.token(tokens) + types + self.position.weight[positions_in(self, tokens.shape[1])]
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

    def parallel_plan(self) -> Mapping[str, str]:
        """Each process has some heads and some inner values."""
        return {"linear_inner": "colwise", "linear_outer": "rowwise", **_BETWEEN}

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

    def parallel_plan(self) -> Mapping[str, str]:
        """Between the layers each process has a part of each sequence."""
        return {"embeddings.token": "embedding", **divided_sequences("layers", self.layers)}

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
        for name, argument in (("attention_mask", attention_mask), ("token_types", token_types)):
            if argument is not None:
                expect_shape(self, argument, *tokens.shape, name=name)
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
        return self.encoder.embeddings.token.project(hidden, self.bias)

    def pipeline_stages(self) -> Mapping[str, str]:
        """A pipeline may cut it before each layer; the table and the bias of the tokens are needed at the end."""
        return {"encoder.layers.*": "each", "encoder.embeddings.token": "both", "": "last"}

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


class VisionTransformerBlock(Module):
    """y + feed_forward(norm(y)) of y = x + attention(norm(x)) (Dosovitskiy et al. 2021, eq. 2 and 3)."""

    def __init__(
        self, config: VisionTransformerConfig, drop_path: float, device: torch.device | str | None = None
    ) -> None:
        super().__init__()
        norm = LayerNormConfig(d_model=config.d_model, epsilon=config.norm_epsilon)
        self.norm_attention = norm.init(device)
        self.attention = MultiHeadAttentionConfig(
            d_model=config.d_model, n_heads=config.n_heads, dropout=config.attention_dropout, initializer=INITIALIZER
        ).init(device)
        self.norm_feed_forward = norm.init(device)
        inner = LinearConfig(d_input=config.d_model, d_output=config.d_ff, initializer=INITIALIZER)
        self.linear_inner = inner.init(device)
        self.activation = config.activation.init(device)
        self.linear_outer = inner.replace(d_input=config.d_ff, d_output=config.d_model).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.drop_path = DropPathConfig(prob=drop_path).init()

    def parallel_plan(self) -> Mapping[str, str]:
        """As of `BertLayer`."""
        return {"linear_inner": "colwise", "linear_outer": "rowwise", **_BETWEEN}

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, length, d_model] -> [batch, length, d_model]`."""
        attended = self.attention(self.norm_attention(x), need_weights=False).context
        x = x + self.drop_path(self.dropout(attended))
        inner = self.activation(self.linear_inner(self.norm_feed_forward(x)))
        return x + self.drop_path(self.dropout(self.linear_outer(inner)))


class VisionTransformer(Module):
    """A transformer that classifies images by their patches (Dosovitskiy et al. 2021).

    Attributes:
        class_token: `[1, 1, d_model]`, the vector that stands before those of the patches.
        positions: `[1, 1 + patches, d_model]`, added to them.
        head: from the class token's result to the classes, or None.
    """

    def __init__(self, config: VisionTransformerConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.patches = PatchEmbeddingConfig(
            channels=config.channels, patch_size=config.patch_size, d_model=config.d_model
        ).init(device)
        self.class_token = INITIALIZER.init([1, 1, config.d_model], device=device)
        self.positions = INITIALIZER.init([1, 1 + config.n_patches, config.d_model], device=device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        steps = max(config.n_layers - 1, 1)
        self.blocks = nn.ModuleList(
            VisionTransformerBlock(config, config.drop_path * at / steps, device) for at in range(config.n_layers)
        )
        self.norm = LayerNormConfig(d_model=config.d_model, epsilon=config.norm_epsilon).init(device)
        self.head = None
        if config.num_classes is not None:
            head = LinearConfig(d_input=config.d_model, d_output=config.num_classes, initializer=INITIALIZER)
            self.head = head.init(device)
        self.image_shape = (config.channels, *each(config.image_size, 2))

    def parallel_plan(self) -> Mapping[str, str]:
        """Between the layers each process has a part of each sequence."""
        return divided_sequences("blocks", self.blocks)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, num_classes]`, the logits; without a head `[batch, d_model]`."""
        first = self.features(x)[:, 0]
        return first if self.head is None else self.head(first)

    @lift
    def features(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, 1 + patches, d_model]`, the class token's vector first."""
        expect_shape(self, x, "batch", *self.image_shape)
        tokens = self.patches(x)
        first = self.class_token.expand(tokens.shape[0], -1, -1)
        tokens = self.dropout(torch.cat((first, tokens), 1) + self.positions)
        for block in self.blocks:
            tokens = block(tokens)
        return self.norm(tokens)


def resized_positions(positions: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
    """Interpolate the vectors of patches (Dosovitskiy et al. 2021, section 3.2), bicubically as `transformers` does.

    `[1, 1 + height * width, d_model]` of a `grid` to that of another one, in the same type; halves are computed in
    float32. The first vector, of the class token, stays.
    """
    image = positions[:, 1:].mT.unflatten(2, grid).to(torch.promote_types(positions.dtype, torch.float32))
    patches = functional.interpolate(image, size=new_grid, mode="bicubic", align_corners=False).flatten(2).mT
    return torch.cat((positions[:, :1], patches.to(positions.dtype)), 1)
