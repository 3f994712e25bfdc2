"""Losses of the difference between predictions and targets."""

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional

from ...module import Content, Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer
from .configs import HuberLossConfig, LpLossConfig, Reduction, SmoothL1LossConfig
from .inputs import OfPredictions, by_word, expect_equal_shapes, mean_or_sum, mean_over


class MseLoss(OfPredictions, Layer):
    """(predictions - targets)^2.

    Torch: `nn.MSELoss`.
    Differs: the reduction is an argument.
    """

    def _loss(self, predictions: Tensor, targets: Tensor, reduction: str) -> Tensor:
        return functional.mse_loss(predictions, targets, reduction=reduction)


class HuberLoss(OfPredictions, Layer):
    """r^2 / 2 where |r| <= delta, delta * (|r| - delta / 2) elsewhere; r = targets - predictions (Huber 1964).

    Torch: `nn.HuberLoss`.
    Differs: `delta` has no default; the reduction is an argument.
    """

    def __init__(self, config: HuberLossConfig) -> None:
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


class SmoothL1Loss(KeepsType, Module):
    """r^2 / (2 beta) where |r| < beta, |r| - beta / 2 elsewhere; r = predictions - targets (Girshick 2015, eq. 3).

    Torch: `nn.SmoothL1Loss`.
    Differs: `forward` does not reduce; `forward_with_reduction` does.
    """

    def __init__(self, config: SmoothL1LossConfig) -> None:
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


class LpLoss(OfPredictions, Module):
    """|predictions - targets|^p.

    Torch: `nn.L1Loss` (p = 1), `nn.MSELoss` (p = 2).
    Differs: any p above 0, without the root; the reduction is an argument.
    """

    def __init__(self, config: LpLossConfig) -> None:
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
