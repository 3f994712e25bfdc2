"""Parametric rectified linear unit."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Constant
from ..layer import Layer, shape_error, torch_name
from .configs import PReluConfig


class PRelu(KeepsType, Layer):
    """x where x >= 0, alpha * x elsewhere (He et al. 2015, eq. 1).

    Torch: `nn.PReLU`.
    Differs: the weight is `alpha`.

    Attributes:
        alpha: `[1]` or `[channels]`; torch's name is `weight`.
        alpha_value: its first value.
    """

    alpha: nn.Parameter

    weight = torch_name("alpha")
    num_parameters = torch_name("alpha", 0)

    def __init__(self, config: PReluConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.alpha = Constant(value=config.alpha).init([config.num_parameters], device=device)
        self.alpha_value = config.alpha

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, ...] -> [batch, channels, ...]`, of any shape if there is one slope.

        Raises:
            ShapeError: there are several slopes, and x has another number of channels.
        """
        count = self.alpha.shape[0]
        if count != 1 and (x.ndim < 2 or x.shape[1] != count):
            raise shape_error(self, f"[batch, {count}, ...]", list(x.shape))
        return functional.prelu(x, self.alpha)

    def custom_content(self, content: Content) -> Content:
        return content.add("num_parameters", content.shape("alpha")[0]).add("alpha_value", self.alpha_value)
