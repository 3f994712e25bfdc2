"""Connectionist temporal classification."""

import torch
from torch import Tensor
from torch.nn import functional

from ...errors import ArgumentError, TargetError
from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import expect_shape
from .configs import CTCLossConfig, Reduction
from .inputs import expect_integers, expect_range, mean_or_sum, readable, wide


class CTCLoss(ChangesRank, Module):
    """-log of the probability of all alignments of the target with the sequence (Graves et al. 2006, eq. 3 and 8).

    Gradients are those with respect to logits whose `log_softmax` the inputs are, as torch computes them.

    Torch: `nn.CTCLoss`.
    Differs: `forward` gives a loss for each sequence; `forward_with_reduction` reduces; targets are padded, `[batch,
    length]`.
    """

    def __init__(self, config: CTCLossConfig) -> None:
        super().__init__()
        self.blank = config.blank
        self.zero_infinity = config.zero_infinity

    @lift
    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """`[time, batch, classes], [batch, length], [batch], [batch] -> [batch]`.

        Args:
            log_probs: `log_softmax` of logits; half precision is computed in float32.
            targets: integers; those from each target's length on do not matter.
            input_lengths: integers in 0..time.
            target_lengths: integers in 0..length.

        Raises:
            ShapeError: the shapes do not fit each other.
            DTypeError: targets or lengths are no integers.
            ArgumentError: `blank` is no class.
            TargetError: a target is no class, or a length exceeds its dimension (on the CPU).
        """
        return self._loss(log_probs, targets, input_lengths, target_lengths, "none")

    @lift
    def forward_with_reduction(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        reduction: Reduction = "auto",
    ) -> Tensor:
        """As `forward`, `-> []`; "mean" ("auto") is the mean of the losses divided by their targets' lengths.

        Raises:
            ShapeError, DTypeError, ArgumentError, TargetError: as `forward`.
            ArgumentError: the reduction is "batch_mean" or unknown.
        """
        return self._loss(log_probs, targets, input_lengths, target_lengths, mean_or_sum(self, reduction))

    def _loss(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, reduction: str
    ) -> Tensor:
        self._check(log_probs, targets, input_lengths, target_lengths)
        x = wide(log_probs)
        try:
            loss = functional.ctc_loss(
                x, targets, input_lengths, target_lengths, self.blank, reduction, self.zero_infinity
            )
        except RuntimeError:
            expect_range(self, input_lengths, 0, x.shape[0], "input_lengths")
            expect_range(self, target_lengths, 0, targets.shape[1], "target_lengths")
            raise
        return loss if x is log_probs else loss.to(log_probs.dtype)

    def _check(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> None:
        expect_shape(self, log_probs, "time", "batch", "classes", name="log_probs")
        _, batch, classes = log_probs.shape
        expect_shape(self, targets, batch, "length", name="targets")
        expect_shape(self, input_lengths, batch, name="input_lengths")
        expect_shape(self, target_lengths, batch, name="target_lengths")
        expect_integers(self, targets)
        expect_integers(self, input_lengths, "input_lengths")
        expect_integers(self, target_lengths, "target_lengths")
        expect_class(self, self.blank, classes)
        try:
            expect_range(self, targets, 0, classes - 1)
        except TargetError:  # which may be behind the end of a target
            if not readable(target_lengths):
                raise
            position = torch.arange(targets.shape[1])
            expect_range(self, targets[position < target_lengths[:, None]], 0, classes - 1)


def expect_class(layer: object, blank: int, classes: int) -> None:
    """Raise ArgumentError if `blank` is no class."""
    if blank >= classes:
        raise ArgumentError(f"{type(layer).__name__}: blank: expected one of the classes 0..{classes - 1}, got {blank}")
