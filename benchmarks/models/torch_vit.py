"""A vision transformer (Dosovitskiy et al. 2021, section 3.1) by torch's encoder."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from burnlike.models import VisionTransformerConfig

NAMES: Mapping[str, str] = {
    r"^patches\.projection": "patches",
    r"^blocks\.(\d+)\.attention": r"encoder.layers.\1.self_attn",
    r"^blocks\.(\d+)\.norm_attention": r"encoder.layers.\1.norm1",
    r"^blocks\.(\d+)\.norm_feed_forward": r"encoder.layers.\1.norm2",
    r"^blocks\.(\d+)\.linear_inner": r"encoder.layers.\1.linear1",
    r"^blocks\.(\d+)\.linear_outer": r"encoder.layers.\1.linear2",
    r"^norm": "encoder.norm",
}
"""Patterns in the paths of ours, and what is here in place of it."""


class VisionTransformer(nn.Module):
    def __init__(self, config: VisionTransformerConfig) -> None:
        super().__init__()
        size, epsilon = config.d_model, config.norm_epsilon
        self.class_token = nn.Parameter(torch.zeros(1, 1, size))
        self.positions = nn.Parameter(torch.zeros(1, 1 + config.n_patches, size))
        self.patches = nn.Conv2d(config.channels, size, config.patch_size, config.patch_size)
        layer = nn.TransformerEncoderLayer(
            size,
            config.n_heads,
            config.d_ff,
            config.dropout,
            activation="gelu",
            layer_norm_eps=epsilon,
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, config.n_layers, nn.LayerNorm(size, epsilon), enable_nested_tensor=False
        )
        self.head = nn.Linear(size, config.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.class_token.expand(x.shape[0], -1, -1), tokens), 1) + self.positions
        return self.head(self.encoder(tokens)[:, 0])
