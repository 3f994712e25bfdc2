"""Vision transformers."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..module import Module
from ..nn.attention.configs import MultiHeadAttentionConfig
from ..nn.blocks.configs import PatchEmbeddingConfig
from ..nn.dropout.configs import DropoutConfig, DropPathConfig
from ..nn.initializers.configs import Normal
from ..nn.layer import expect_shape
from ..nn.linear.configs import LinearConfig
from ..nn.norm.configs import LayerNormConfig
from ..nn.padding import each
from ..tensor.torch_bridge.torch_function import lift
from .vision_configs import VisionTransformerConfig

INITIALIZER = Normal(std=0.02)
"""Of all weights (Dosovitskiy et al. 2021, their program)."""


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
