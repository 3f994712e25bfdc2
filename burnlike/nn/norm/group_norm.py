"""Group normalization, and instance normalization, whose groups are single channels."""

import torch
from torch import Tensor, nn

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Ones, Zeros
from ..layer import Layer, expect_shape, torch_name
from .configs import GroupNormConfig, InstanceNormConfig


class _GroupedNorm(KeepsType, Layer):
    """What both share: the fields of the config, and gamma (ones) and beta (zeros), `[num_channels]` or None."""

    gamma: nn.Parameter | None
    beta: nn.Parameter | None
    num_groups: int
    num_channels: int
    epsilon: float
    affine: bool

    weight = torch_name("gamma")
    bias = torch_name("beta")
    eps = torch_name("epsilon")

    def __init__(self, config: GroupNormConfig | InstanceNormConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Ones().init([config.num_channels], device=device) if config.affine else None
        self.beta = Zeros().init([config.num_channels], device=device) if config.affine else None
        for name in config.__struct_fields__:
            setattr(self, name, getattr(config, name))

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, num_channels, ...] -> [batch, num_channels, ...]`."""
        expect_shape(self, x, "batch", self.num_channels, "...")
        return torch.group_norm(x, self.num_groups, self.gamma, self.beta, self.epsilon)

    def custom_content(self, content: Content) -> Content:
        content = content.add("num_channels", self.num_channels)
        return content.add("epsilon", self.epsilon).add("affine", self.affine)


class GroupNorm(_GroupedNorm):
    """(x - mean) / sqrt(variance + epsilon) over each group of channels, then * gamma + beta (Wu & He 2018, eq. 7).

    Torch: `nn.GroupNorm`.
    Differs: weights are `gamma` and `beta`.
    """

    def custom_content(self, content: Content) -> Content:
        return super().custom_content(content.add("num_groups", self.num_groups))


class InstanceNorm(_GroupedNorm):
    """(x - mean) / sqrt(variance + epsilon) for each item and channel, then * gamma + beta (Ulyanov et al. 2016).

    Torch: `nn.InstanceNorm1d`, `2d`, `3d`.
    Differs: one class for all ranks; affine by default; no running statistics; weights are `gamma` and `beta`.
    """

    num_features = torch_name("num_channels")
    # One group for each channel: the numbers of `instance_norm`, without its copies of gamma and beta for each item.
    num_groups = property(lambda layer: layer.num_channels)  # pyright: ignore[reportAssignmentType]
