"""Normalizations but for BatchNorm, and the one that a config chooses, as a field of other layers."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...module import Content, Module
from ...ops import layer_norm, rms_norm, rms_norm_reference
from ...ops._function import takes_references
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Ones, Zeros
from ..layer import ChosenLayer, ConfiguredLayer, Layer, expect_shape, exports_to_onnx, shape_error, torch_name
from .configs import GroupNormConfig, InstanceNormConfig, LayerNormConfig, LocalResponseNormConfig, RmsNormConfig


class LayerNorm(KeepsType, Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last dimension (Ba et al. 2016, eq. 4).

    Torch: `nn.LayerNorm`.
    Differs: over the last dimension only; weights are `gamma` and `beta`; under autocast on CUDA the result has x's
    dtype, torch's is float32.

    Attributes:
        gamma, beta: `[d_model]`, ones and zeros at first; beta may be None.
    """

    gamma: nn.Parameter
    beta: nn.Parameter | None

    weight = torch_name("gamma")
    bias = torch_name("beta")
    eps = torch_name("epsilon")
    normalized_shape = property(lambda layer: tuple(layer.gamma.shape))

    def __init__(self, config: LayerNormConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Ones().init([config.d_model], device=device)
        self.beta = Zeros().init([config.d_model], device=device) if config.bias else None
        self.epsilon = config.epsilon

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`, in x's dtype."""
        shape = self.gamma.shape
        expect_shape(self, x, "...", shape[0])
        if exports_to_onnx() or takes_references():  # ONNX lacks the native op, a backend's tables have torch's
            return functional.layer_norm(x, shape, self.gamma, self.beta, self.epsilon)
        return layer_norm(x, self.gamma, self.beta, self.epsilon)

    def custom_content(self, content: Content) -> Content:
        (d_model,) = content.shape("gamma")
        return content.add("d_model", d_model).add("epsilon", self.epsilon).add("bias", content.has("beta"))


class RmsNorm(KeepsType, Layer):
    """x / sqrt(mean(x^2) + epsilon) * gamma `[d_model]` over the last dimension (Zhang & Sennrich 2019, eq. 4).

    Torch: `nn.RMSNorm`.
    Differs: over the last dimension only; epsilon is 1e-5, torch's default the smallest step of the dtype; the weight
    is `gamma`.
    """

    weight = torch_name("gamma")
    eps = torch_name("epsilon")
    normalized_shape = property(lambda layer: tuple(layer.gamma.shape))

    def __init__(self, config: RmsNormConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Ones().init([config.d_model], device=device)
        self.epsilon = config.epsilon

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`, in x's dtype."""
        expect_shape(self, x, "...", self.gamma.shape[0])
        norm = rms_norm_reference if exports_to_onnx() else rms_norm
        return norm(x, self.gamma, self.epsilon)

    def custom_content(self, content: Content) -> Content:
        (d_model,) = content.shape("gamma")
        return content.add("d_model", d_model).add("epsilon", self.epsilon)


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


class LocalResponseNorm(KeepsType, ConfiguredLayer, config=LocalResponseNormConfig):
    """x / (k + alpha * mean(x^2))^beta over a window of channels (Krizhevsky et al. 2012, section 3.3).

    The mean is over `size` channels, those outside counting as 0.

    Torch: `nn.LocalResponseNorm`.
    Differs: with an even size the extra channel is the one after, torch's the one before.
    """

    size: int
    alpha: float
    beta: float
    k: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, ..., length] -> [batch, channels, ..., length]`, three or more dimensions."""
        if x.ndim < 3:
            raise shape_error(self, "[batch, channels, ..., length]", list(x.shape))
        squares = x.square().flatten(2).unsqueeze(1)
        before = (self.size - 1) // 2
        if self.size % 2 == 0:
            squares, before = functional.pad(squares, (0, 0, before, before + 1)), 0
        mean = functional.avg_pool2d(squares, (self.size, 1), stride=1, padding=(before, 0))
        return x / (mean.reshape(x.shape) * self.alpha + self.k) ** self.beta


class Normalization(ChosenLayer):
    """One of the normalizations; which one is part of the record.

    Example:
        >>> from burnlike.nn import GroupNormConfig
        >>> Normalization.of(GroupNormConfig(num_groups=2, num_channels=8)).variant
        'Group'
    """

    # In the order of Burn 0.21, whose bincode has the number of the variant; what it lacks comes after.
    Batch: Module
    Group: Module
    Instance: Module
    Layer: Module
    Rms: Module
    Identity: Module

    @staticmethod
    def _variant(tag: str) -> str:
        return tag.removesuffix("Norm")

    @property
    def num_features(self) -> int:
        """The number of features, whatever the layer calls them; 0 for Identity."""
        gamma = getattr(self.value, "gamma", None)
        return getattr(self.value, "num_channels", 0) if gamma is None else gamma.shape[0]
