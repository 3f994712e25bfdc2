"""Batch normalization, with Burn's running variance."""

import torch
from torch import Tensor
from torch.backends import cudnn
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Ones, Zeros
from ..joint_batch import JointLayer
from ..layer import Layer, expect_shape, torch_name
from .configs import BatchNormConfig


class BatchNorm(KeepsType, JointLayer, Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (Ioffe & Szegedy 2015, algorithm 1).

    In training mode the mean and the variance are those of the batch, and the running ones move towards them by
    `momentum`; in evaluation they are the running ones. If a Learner trains in several processes, the batch is that of
    all processes. A twin of a layer of torch's, of `interop.from_torch`, goes on with torch's running variance and
    counts batches.

    Torch: `nn.BatchNorm1d`, `2d`, `3d`.
    Differs: one class for all ranks; `running_var` is of the biased variance, torch's of the unbiased; always affine
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
            for running, found in ((self.running_mean, mean), (self.running_var, estimate)):
                running.copy_(running.to(found.dtype).lerp(found, weight))
        scale = self.gamma * (variance + self.epsilon).rsqrt()
        return (centered * scale.view(shape) + self.beta.view(shape)).to(x.dtype)

    def _normalize_single(self, x: Tensor) -> Tensor:
        """One value in each channel, which torch refuses, or none: no value leaves the statistics as they are."""
        shape = [1, -1] + [1] * (x.ndim - 2)
        if x.numel():
            value = x.detach().reshape(-1).to(self.running_mean.dtype)
            self.running_mean.lerp_(value, self.momentum)
            self.running_var.mul_(1 - self.momentum)
        return ((x - x) * self.gamma.reshape(shape) + self.beta.reshape(shape)).to(x.dtype)

    def custom_content(self, content: Content) -> Content:
        (num_features,) = content.shape("beta")
        content = content.add("num_features", num_features).add("momentum", self.momentum)
        return content.add("epsilon", self.epsilon)
