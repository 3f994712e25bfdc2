"""Losses between distributions: divergences, and minus the logarithms of likelihoods."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from ...errors import ArgumentError, TargetError
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import GivesLoss
from ..layer import ConfiguredLayer, shape_error
from .configs import GaussianNLLLossConfig, KLDivLossConfig, PoissonNllLossConfig, Reduction
from .inputs import OfPredictions, by_word, expect_equal_shapes, readable, reduced


class KLDivLoss(GivesLoss, ConfiguredLayer, config=KLDivLossConfig):
    """target * (log target - prediction), of predictions that are logarithms (Kullback & Leibler 1951, eq. 2.4).

    Torch: `nn.KLDivLoss`.
    Differs: the reduction is an argument, and `auto` is `batch_mean`.
    """

    log_target: bool

    @lift
    def forward(self, predictions: Tensor, targets: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[batch, ...], [batch, ...] -> []`; "auto" is "batch_mean", the sum divided by the batch.

        Raises ShapeError if the shapes differ, ArgumentError if the reduction is unknown.
        """
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


class PoissonNllLoss(OfPredictions, ConfiguredLayer, config=PoissonNllLossConfig):
    """rate - target * log(rate), without log(target!) unless `full`.

    A negative target raises TargetError and a negative rate ArgumentError (on the CPU).

    Torch: `nn.PoissonNLLLoss`.
    Differs: the reduction is an argument.
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
            factorial = torch.addcmul(0.5 * math.log(2 * math.pi) - targets, targets + 0.5, targets.log())
            loss = loss + factorial.masked_fill(targets <= 1, 0)
        return by_word(loss, reduction)


class GaussianNLLLoss(GivesLoss, ConfiguredLayer, config=GaussianNLLLossConfig):
    """(log(var) + (input - target)^2 / var) / 2 (Nix & Weigend 1994); variances below `eps` count as `eps`.

    Torch: `nn.GaussianNLLLoss`.
    Differs: the reduction is an argument.
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
