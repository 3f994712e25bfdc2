"""Losses of each prediction by itself: differences from targets, divergences, minus the logarithms of likelihoods."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import ArgumentError, TargetError
from ...module import Content, Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import GivesLoss, KeepsType
from ..layer import ConfiguredLayer, FromConfig, Layer, shape_error
from ..torch_counterpart import Counterpart, expect_only, refuse
from . import configs
from .configs import Reduction
from .inputs import OfPredictions, by_word, expect_equal_shapes, loss_pair, mean_or_sum, mean_over, readable, reduced


class MseLoss(OfPredictions, Layer):
    """(predictions - targets)^2. Torch: `nn.MSELoss`. Differs: the reduction is an argument."""

    def _loss(self, predictions: Tensor, targets: Tensor, reduction: str) -> Tensor:
        return functional.mse_loss(predictions, targets, reduction=reduction)


class HuberLoss(OfPredictions, Layer):
    """r^2 / 2 where |r| <= delta, delta * (|r| - delta / 2) elsewhere; r = targets - predictions (Huber 1964).
    Torch: `nn.HuberLoss`. Differs: `delta` has no default; the reduction is an argument.
    """

    def __init__(self, config: configs.HuberLossConfig) -> None:
        super().__init__()
        self.delta = config.delta
        self.lin_bias = config.delta * config.delta * 0.5

    def _loss(self, predictions: Tensor, targets: Tensor, reduction: str) -> Tensor:
        return functional.huber_loss(predictions, targets, reduction, self.delta)

    @lift
    def forward_residuals(self, residuals: Tensor) -> Tensor:
        """`[...] -> [...]`, of differences that are computed already."""
        return self._loss(residuals, residuals.new_zeros(()).expand_as(residuals), "none")

    def custom_content(self, content: Content) -> Content:
        return content.add("delta", self.delta).add("lin_bias", self.lin_bias)


class SmoothL1Loss(KeepsType, FromConfig, Module):
    """r^2 / (2 beta) where |r| < beta, |r| - beta / 2 elsewhere; r = predictions - targets (Girshick 2015, eq. 3).
    Torch: `nn.SmoothL1Loss`. Differs: `forward` does not reduce; `forward_with_reduction` does.
    """

    def __init__(self, config: configs.SmoothL1LossConfig) -> None:
        super().__init__()
        self.beta = config.beta

    @lift
    def forward(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """`[...], [...] -> [...]`, not reduced. Raises ShapeError if the shapes differ."""
        expect_equal_shapes(self, predictions, targets)
        return functional.smooth_l1_loss(predictions, targets, reduction="none", beta=self.beta)

    @lift
    def forward_with_reduction(self, predictions: Tensor, targets: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[...], [...] -> []`, reduced and checked as `MseLoss` does it."""
        expect_equal_shapes(self, predictions, targets)
        word = mean_or_sum(self, reduction)
        return functional.smooth_l1_loss(predictions, targets, reduction=word, beta=self.beta)

    @lift
    def forward_reduce_dims(self, predictions: Tensor, targets: Tensor, dims: int | Sequence[int]) -> Tensor:
        """The mean over `dims`, which remain as sizes of 1; shapes that differ raise ShapeError."""
        return mean_over(self.forward(predictions, targets), dims)


class LpLoss(OfPredictions, FromConfig, Module):
    """|predictions - targets|^p.
    Torch: `nn.L1Loss` (p = 1), `nn.MSELoss` (p = 2).
    Differs: any p above 0, without the root; the reduction is an argument.
    """

    def __init__(self, config: configs.LpLossConfig) -> None:
        super().__init__()
        self.p = config.p

    @lift
    def forward_reduce_dims(self, predictions: Tensor, targets: Tensor, dims: int | Sequence[int]) -> Tensor:
        """The mean over `dims`, which remain as sizes of 1; shapes that differ raise ShapeError."""
        return mean_over(self.forward_no_reduction(predictions, targets), dims)

    def _loss(self, predictions: Tensor, targets: Tensor, reduction: str) -> Tensor:
        if self.p == 1:
            return functional.l1_loss(predictions, targets, reduction=reduction)
        if self.p == 2:
            return functional.mse_loss(predictions, targets, reduction=reduction)
        error = (predictions - targets).abs()
        if self.p > 1:
            loss = error.pow(self.p)
        else:  # the derivative at 0 would be infinity times 0
            hit = error == 0
            loss = error.masked_fill(hit, 1).pow(self.p).masked_fill(hit, 0)
        return by_word(loss, reduction)


class KLDivLoss(GivesLoss, ConfiguredLayer, config=configs.KLDivLossConfig):
    """target * (log target - prediction), of predictions that are logarithms (Kullback & Leibler 1951, eq. 2.4).
    Torch: `nn.KLDivLoss`. Differs: the reduction is an argument, and `auto` is `batch_mean`.
    """

    log_target: bool

    @lift
    def forward(self, predictions: Tensor, targets: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[batch, ...], [batch, ...] -> []`; "auto" is "batch_mean", the sum divided by the batch."""
        expect_equal_shapes(self, predictions, targets)
        if reduction in ("auto", "batch_mean"):
            return functional.kl_div(predictions, targets, reduction="batchmean", log_target=self.log_target)
        # torch's own "mean" warns that it is seldom what one wants.
        return reduced(self, self.forward_no_reduction(predictions, targets), reduction)

    @lift
    def forward_no_reduction(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """As `forward`, not reduced: `[...], [...] -> [...]`."""
        expect_equal_shapes(self, predictions, targets)
        return functional.kl_div(predictions, targets, reduction="none", log_target=self.log_target)


class PoissonNllLoss(OfPredictions, ConfiguredLayer, config=configs.PoissonNllLossConfig):
    """rate - target * log(rate), without log(target!) unless `full`.

    A negative target raises TargetError and a negative rate ArgumentError (on the CPU).

    Torch: `nn.PoissonNLLLoss`. Differs: the reduction is an argument.
    """

    log_input: bool
    full: bool
    eps: float

    def _loss(self, predictions: Tensor, targets: Tensor, reduction: str) -> Tensor:
        if (least := _least(targets)) < 0:
            raise TargetError(f"PoissonNllLoss: targets: expected counts >= 0, got {least:g}")
        if self.log_input:
            loss = torch.addcmul(predictions.exp(), targets, predictions, value=-1)
        else:
            if (least := _least(predictions)) < 0:
                raise ArgumentError(
                    f"PoissonNllLoss: expected rates >= 0, got {least:g}; for their logarithms, set `log_input: true`"
                )
            loss = torch.addcmul(predictions, targets, (predictions + self.eps).log(), value=-1)
        if self.full:  # Stirling: (t + 1/2) log t - t + log(2 pi) / 2 (Abramowitz & Stegun 1964, eq. 6.1.41)
            few = targets <= 1
            counts = targets.masked_fill(few, 1)  # the derivative of what is masked is a number, too
            factorial = torch.addcmul(0.5 * math.log(2 * math.pi) - counts, counts + 0.5, counts.log())
            loss = loss + factorial.masked_fill(few, 0)
        return by_word(loss, reduction)


class GaussianNLLLoss(GivesLoss, ConfiguredLayer, config=configs.GaussianNLLLossConfig):
    """(log(var) + (input - target)^2 / var) / 2 (Nix & Weigend 1994); variances below `eps` count as `eps`.
    Torch: `nn.GaussianNLLLoss`. Differs: the reduction is an argument.
    """

    eps: float
    full: bool

    @lift
    def forward(self, input: Tensor, target: Tensor, var: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[...], [...], [...] -> []`, reduced and checked as `MseLoss` does it; the last size of `var` may be 1."""
        return reduced(self, self.forward_no_reduction(input, target, var), reduction)

    @lift
    def forward_no_reduction(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        """As `forward`, not reduced: `[...], [...], [...] -> [...]`."""
        expect_equal_shapes(self, input, target, "target")
        if var.shape != input.shape and var.shape != (*input.shape[:-1], 1):
            raise shape_error(self, str(list(input.shape)), list(var.shape), name="var")
        var = var.clamp_min(self.eps)
        loss = 0.5 * (var.log() + (input - target).square() / var)
        return loss + 0.5 * math.log(2 * math.pi) if self.full else loss


def _least(values: Tensor) -> float:
    """The smallest value; 0 where it can't be read."""
    return values.amin().item() if readable(values) and values.numel() else 0.0


def _lp_config(loss: nn.L1Loss) -> configs.LpLossConfig:
    expect_only(loss, reduction="mean")
    return configs.LpLossConfig(p=1.0)


def _lp(loss: Any, _device: torch.device) -> nn.Module:
    if loss.p not in (1, 2):
        raise refuse(loss, f"p={loss.p} has no counterpart")
    return nn.L1Loss() if loss.p == 1 else nn.MSELoss()


COUNTERPARTS = [
    loss_pair(configs.MseLossConfig, nn.MSELoss),
    Counterpart("LpLoss", nn.L1Loss, _lp_config, _lp),
    loss_pair(configs.HuberLossConfig, nn.HuberLoss),
    loss_pair(configs.SmoothL1LossConfig, nn.SmoothL1Loss, "none"),
    loss_pair(configs.KLDivLossConfig, nn.KLDivLoss, "batchmean"),
    loss_pair(configs.PoissonNllLossConfig, nn.PoissonNLLLoss),
    loss_pair(configs.GaussianNLLLossConfig, nn.GaussianNLLLoss),
]
