"""Twins of torchvision's classes: the block of its vision transformers, and the norm of ConvNeXt."""

from typing import Any

import torchvision.models as theirs  # pyright: ignore[reportMissingImports]
from torch import Tensor

from ... import nn as layers
from ..registered_classes import register_twin

_EncoderBlock: Any = theirs.vision_transformer.EncoderBlock


class EncoderBlock(_EncoderBlock):
    """Attention and a feed-forward, each behind a norm and beside what it adds to."""

    def forward(self, input: Tensor) -> Tensor:
        """`[batch, length, hidden_dim] -> [batch, length, hidden_dim]`."""
        context = self.self_attention(self.ln_1(input), need_weights=False).context
        x = self.dropout(context) + input
        return x + self.mlp(self.ln_2(x))


class LayerNorm2d(layers.LayerNorm):
    """Layer normalization of the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, channels, height, width]`."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def register() -> None:
    """Make these twins known."""
    register_twin(_EncoderBlock, EncoderBlock)
    register_twin(theirs.convnext.LayerNorm2d, LayerNorm2d)
