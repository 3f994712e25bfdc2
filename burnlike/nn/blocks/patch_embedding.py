"""Patches of an image as vectors."""

import torch
from torch import Tensor

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..conv.configs import Conv2dConfig
from ..layer import Layer, expect_shape, shape_error
from ..torch_counterpart import AnyLibrary
from .configs import PatchEmbeddingConfig


class PatchEmbedding(ChangesRank, AnyLibrary, Layer):
    """An image as a sequence of vectors, one for each patch, row by row (Dosovitskiy et al. 2021, eq. 1).

    Torch: an `nn.Conv2d` whose stride is its kernel size.
    Differs: the result is a sequence; sizes that are no multiples of the patch are refused.

    Attributes:
        projection: Conv2d `channels -> d_model`.
    """

    def __init__(self, config: PatchEmbeddingConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.projection = Conv2dConfig(
            channels=(config.channels, config.d_model),
            kernel_size=config.patch_size,
            stride=config.patch_size,
            bias=config.bias,
            initializer=config.initializer,
        ).init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, patches, d_model]`."""
        _, channels, height, width = self.projection.weight.shape
        expect_shape(self, x, "batch", channels, "height", "width")
        if x.shape[2] % height or x.shape[3] % width:
            raise shape_error(self, f"multiples of the patch's [{height}, {width}]", list(x.shape[2:]))
        return self.projection(x).flatten(2).mT

    def custom_content(self, content: Content) -> Content:
        d_model, channels, *patch = content.shape("projection.weight")
        content = content.add("channels", channels).add("patch_size", patch).add("d_model", d_model)
        return content.add("bias", content.has("projection.bias"))
