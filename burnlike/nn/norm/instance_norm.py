"""Instance normalization."""

import torch
from torch import Tensor, nn

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Ones, Zeros
from ..layer import Layer, expect_shape, torch_name
from .configs import InstanceNormConfig


class InstanceNorm(KeepsType, Layer):
    """(x - mean) / sqrt(variance + epsilon) for each item and channel, then * gamma + beta (Ulyanov et al. 2016).

    Torch: `nn.InstanceNorm1d`, `2d`, `3d`.
    Differs: one class for all ranks; affine by default; no running statistics; weights are `gamma` and `beta`.

    Attributes:
        gamma: `[num_channels]`, ones at first, or None.
        beta: `[num_channels]`, zeros at first, or None.
    """

    gamma: nn.Parameter | None
    beta: nn.Parameter | None

    weight = torch_name("gamma")
    bias = torch_name("beta")
    eps = torch_name("epsilon")
    num_features = torch_name("num_channels")

    def __init__(self, config: InstanceNormConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Ones().init([config.num_channels], device=device) if config.affine else None
        self.beta = Zeros().init([config.num_channels], device=device) if config.affine else None
        self.num_channels = config.num_channels
        self.epsilon = config.epsilon
        self.affine = config.affine

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, num_channels, ...] -> [batch, num_channels, ...]`.

        Raises:
            ShapeError: x has another number of channels, or no such dimension.
        """
        expect_shape(self, x, "batch", self.num_channels, "...")
        # The same numbers as `instance_norm`, and without its copies of gamma and beta for each item.
        return torch.group_norm(x, self.num_channels, self.gamma, self.beta, self.epsilon)

    def custom_content(self, content: Content) -> Content:
        content = content.add("num_channels", self.num_channels)
        return content.add("epsilon", self.epsilon).add("affine", self.affine)
