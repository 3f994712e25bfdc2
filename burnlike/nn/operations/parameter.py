"""A trained tensor as a layer."""

import torch
from torch import Tensor

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import Layer, shape_error
from ..torch_counterpart import AnyLibrary
from .configs import ParameterConfig


class Parameter(ChangesRank, AnyLibrary, Layer):
    """A trained tensor for each item of the batch of its input, whose values do not count.

    Torch: `nn.Parameter`, expanded.

    Attributes:
        weight: of the shape in the config.
    """

    def __init__(self, config: ParameterConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.weight = config.initializer.init(list(config.shape), device=device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, ...] -> [batch, *shape]`.

        Raises:
            ShapeError: x has no dimension.
        """
        if x.ndim == 0:
            raise shape_error(self, "[batch, ...]", [])
        # A copy, as layers that follow may write to it.
        return self.weight.expand(x.shape[0], *self.weight.shape).clone()

    def custom_content(self, content: Content) -> Content:
        return content.add("shape", list(content.shape("weight")))
