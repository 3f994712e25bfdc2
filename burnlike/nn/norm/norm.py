"""Normalizations, and the one that a config chooses, as a field of other layers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.backends import cudnn
from torch.nn import functional

from ...module import Content, Module
from ...ops import layer_norm, rms_norm, rms_norm_reference
from ...ops._function import takes_references
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Ones, Zeros
from ..joint_batch import JointLayer
from ..layer import ChosenLayer, ConfiguredLayer, Layer, expect_shape, exports_to_onnx, shape_error, torch_name
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike, expect_only, refuse
from . import configs
from .configs import (
    BatchNormConfig,
    GroupNormConfig,
    InstanceNormConfig,
    LayerNormConfig,
    LocalResponseNormConfig,
    RmsNormConfig,
)


class BatchNorm(KeepsType, JointLayer, Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (Ioffe & Szegedy 2015, algorithm 1).

    In training mode the mean and the variance are those of the batch, and the running ones move towards them by
    `momentum`; in evaluation they are the running ones. If a Learner trains in several processes, the batch is that of
    all processes. A twin of a layer of torch's, of `interop.from_torch`, goes on with torch's running variance and
    counts batches.

    Torch: `nn.BatchNorm1d`, `2d`, `3d`.
    Differs: one class for all ranks; `running_var` averages the biased variance, torch's the unbiased; always affine
    and tracking; weights are `gamma` and `beta`.

    Attributes:
        gamma, beta: `[num_features]`, ones and zeros at first.
        running_mean, running_var: buffers `[num_features]`.
    """

    running_mean: Tensor
    running_var: Tensor

    weight = torch_name("gamma")
    bias = torch_name("beta")
    eps = torch_name("epsilon")
    num_features = torch_name("gamma", 0)

    def __init__(self, config: BatchNormConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        shape = [config.num_features]
        self.gamma = Ones().init(shape, device=device)
        self.beta = Zeros().init(shape, device=device)
        self.register_buffer("running_mean", torch.zeros(shape, device=device))
        self.register_buffer("running_var", torch.ones(shape, device=device))
        self.momentum = config.momentum
        self.epsilon = config.epsilon

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, num_features, ...] -> [batch, num_features, ...]`."""
        gamma = self.gamma
        channels = gamma.shape[0]
        expect_shape(self, x, "batch", channels, "...")
        if not self.training:
            return functional.batch_norm(x, self.running_mean, self.running_var, gamma, self.beta, eps=self.epsilon)
        batches = self._buffers.get("_num_batches_tracked")
        if batches is not None:
            batches.add_(1)
        if self._is_joint:
            return self._normalize_jointly(x, is_twin=batches is not None)
        count = x.numel() // channels
        if count < 2:
            return self._normalize_single(x)
        if batches is not None:
            return functional.batch_norm(
                x, self.running_mean, self.running_var, gamma, self.beta, True, self.momentum, self.epsilon
            )
        # With s as the variance of divisor n, torch makes (1 - m) w + m s n / (n - 1) of a running variance w. For
        # w = -v m n / (n - 1) / (1 - m) this is m (s - v) n / (n - 1): Burn's step from v to s, but for n / (n - 1).
        # Autograd keeps w and refuses to see it changed, so it is no view of v.
        variance, rest, part = self.running_var, 1 - self.momentum, 1 - 1 / count
        scale = -self.momentum / (rest * part) if rest else 1.0
        step = torch.add(variance, variance, alpha=scale - 1)
        y = torch.batch_norm(
            x, gamma, self.beta, self.running_mean, step, True, self.momentum, self.epsilon, cudnn.enabled
        )
        if rest:
            variance.add_(step, alpha=part)
        else:
            variance.copy_(step * part)
        return y

    def _normalize_jointly(self, x: Tensor, *, is_twin: bool) -> Tensor:
        """Normalize a part of a batch that several processes share, by the mean and the variance of all of it."""
        shape, dims = [1, -1] + [1] * (x.ndim - 2), (0, *range(2, x.ndim))
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # 16 bits count to 256 only
        (mean,), count = self._means_and_count(wide, dims=dims)
        centered = wide - mean.view(shape)
        (variance,), _ = self._means_and_count(centered.square(), dims=dims)
        with torch.no_grad():
            weight = self.momentum * count.clamp(max=1)  # no value leaves the statistics as they are
            estimate = variance * (count / (count - 1).clamp(min=1)) if is_twin else variance
            for running, statistic in ((self.running_mean, mean), (self.running_var, estimate)):
                running.copy_(running.to(statistic.dtype).lerp(statistic, weight))
        scale = self.gamma * (variance + self.epsilon).rsqrt()
        return (centered * scale.view(shape) + self.beta.view(shape)).to(x.dtype)

    def _normalize_single(self, x: Tensor) -> Tensor:
        """One value in each channel, which torch refuses, or none: no value leaves the statistics as they are."""
        shape = [1, -1] + [1] * (x.ndim - 2)
        if x.numel():
            value = x.detach().reshape(-1).to(self.running_mean.dtype)
            self.running_mean.lerp_(value, self.momentum)
            self.running_var.mul_(1 - self.momentum)
        # Not zeros: so the result has a history, and is NaN where x is no number.
        return ((x - x) * self.gamma.reshape(shape) + self.beta.reshape(shape)).to(x.dtype)

    def custom_content(self, content: Content) -> Content:
        (num_features,) = content.shape("beta")
        content = content.add("num_features", num_features).add("momentum", self.momentum)
        return content.add("epsilon", self.epsilon)


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
    Differs: over the last dimension only; epsilon is 1e-5, in torch the dtype's smallest step by default; the weight
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
    """The base of both norms: the fields of the config, and gamma (ones) and beta (zeros), `[num_channels]` or None."""

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
    Torch: `nn.GroupNorm`. Differs: weights are `gamma` and `beta`.
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
    Differs: with an even size the extra channel comes after, in torch before.
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


_AFFINE = {"gamma": TensorSource("weight"), "beta": TensorSource("bias")}
_RUNNING = {name: TensorSource(name) for name in ("running_mean", "running_var")}


def _one_size(layer: nn.LayerNorm | nn.RMSNorm) -> int:
    if len(layer.normalized_shape) != 1:
        raise refuse(layer, f"normalized_shape={tuple(layer.normalized_shape)} has more than one dimension")
    expect_only(layer, elementwise_affine=True)
    return layer.normalized_shape[0]


def _rms_norm_config(layer: nn.RMSNorm) -> configs.RmsNormConfig:
    d_model = _one_size(layer)
    if layer.eps is not None:
        return configs.RmsNormConfig(d_model=d_model, epsilon=layer.eps)
    # None is the epsilon of the type that torch computes in, float32 for 16 bits; the input's is the weight's but for
    # mixed precision.
    computed = torch.promote_types(layer.weight.dtype, torch.float32)
    return configs.RmsNormConfig(d_model=d_model, epsilon=torch.finfo(computed).eps)


def _response_norm_options(layer: Any) -> dict[str, Any]:
    if layer.size % 2 == 0:
        raise refuse(layer, f"size={layer.size} is even: torch has the extra channel on the other side")
    return {name: getattr(layer, name) for name in ("size", "alpha", "beta", "k")}


COUNTERPARTS = [
    *(
        alike(
            configs.BatchNormConfig,
            twin,
            {**_AFFINE, **_RUNNING},
            {"affine": True, "track_running_stats": True},
            ("num_batches_tracked",),
            epsilon="eps",
        )
        for twin in (nn.BatchNorm1d, nn.BatchNorm3d, nn.BatchNorm2d)
    ),
    *(
        alike(
            configs.InstanceNormConfig,
            twin,
            _AFFINE,
            {"track_running_stats": False},
            num_channels="num_features",
            epsilon="eps",
        )
        for twin in (nn.InstanceNorm1d, nn.InstanceNorm3d, nn.InstanceNorm2d)
    ),
    Counterpart(
        "LayerNorm",
        nn.LayerNorm,
        lambda it: configs.LayerNormConfig(d_model=_one_size(it), epsilon=it.eps, bias=it.bias is not None),
        lambda it, device: nn.LayerNorm(it.gamma.shape[0], it.epsilon, bias=it.beta is not None, device=device),
        _AFFINE,
    ),
    alike(configs.GroupNormConfig, nn.GroupNorm, _AFFINE, epsilon="eps"),
    Counterpart(
        "RmsNorm",
        nn.RMSNorm,
        _rms_norm_config,
        lambda it, device: nn.RMSNorm(it.gamma.shape[0], it.epsilon, device=device),
        {"gamma": TensorSource("weight")},
    ),
    Counterpart(
        "LocalResponseNorm",
        nn.LocalResponseNorm,
        lambda it: configs.LocalResponseNormConfig(**_response_norm_options(it)),
        lambda it, device: nn.LocalResponseNorm(**_response_norm_options(it)),
    ),
]
