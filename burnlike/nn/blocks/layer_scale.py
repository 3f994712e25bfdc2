"""Layer scale."""

import torch
from torch import Tensor

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Constant
from ..layer import Layer, expect_shape
from ..torch_counterpart import AnyLibrary
from .configs import LayerScaleConfig


class LayerScale(KeepsType, AnyLibrary, Layer):
    """x * gamma, gamma learned, for each element of the last dimension (Touvron et al. 2021, eq. 4).

    Torch: -.

    Attributes:
        gamma: `[d_model]`, all `value` at first.
    """

    def __init__(self, config: LayerScaleConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Constant(value=config.value).init([config.d_model], device=device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`.

        Raises:
            ShapeError: the last dimension of x is not `d_model`.
        """
        expect_shape(self, x, "...", self.gamma.shape[0])
        return x * self.gamma

    def custom_content(self, content: Content) -> Content:
        (d_model,) = content.shape("gamma")
        return content.add("d_model", d_model)
