"""The transducer's loss."""

import torch
from torch import Tensor

from ...errors import ShapeError
from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import expect_shape
from .alignments import arc_scores, minus_log_likelihood
from .configs import Reduction, RNNTLossConfig
from .ctc import expect_class
from .inputs import expect_integers, expect_range, reduced


class RNNTLoss(ChangesRank, Module):
    """-log of the probability of all alignments of the target with the sequence (Graves 2012, eq. 16 and 17).

    Torch: `torchaudio.functional.rnnt_loss`.
    Differs: `blank` is 0 by default, torchaudio's is -1; `forward` gives a loss for each sequence.
    """

    def __init__(self, config: RNNTLossConfig) -> None:
        super().__init__()
        self.blank = config.blank
        self.logits = config.logits

    @lift
    def forward(self, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """`[batch, time, length + 1, classes], [batch, length], [batch], [batch] -> [batch]`.

        Beside the inputs and their gradient, memory for a few numbers for each sample, time and label is taken.

        Args:
            logits: or logarithms of probabilities, as the config says; half precision is computed in float32.
            targets: integers; those from each target's length on do not matter.
            logit_lengths: integers in 1..time.
            target_lengths: integers in 0..length.

        Raises:
            ShapeError: the shapes do not fit each other.
            DTypeError: targets or lengths are no integers.
            ArgumentError: `blank` is no class.
            TargetError: a target is no class, or a length exceeds its dimension (on the CPU).
        """
        self._check(logits, targets, logit_lengths, target_lengths)
        position = torch.arange(targets.shape[1], device=targets.device)
        targets = targets.long().masked_fill(position >= target_lengths[:, None], 0)
        expect_range(self, targets, 0, logits.shape[3] - 1)
        blanks, labels = arc_scores(logits, targets, self.blank, self.logits)
        loss = minus_log_likelihood(blanks, labels, logit_lengths.long(), target_lengths.long())
        return loss.to(logits.dtype)

    @lift
    def forward_with_reduction(
        self,
        logits: Tensor,
        targets: Tensor,
        logit_lengths: Tensor,
        target_lengths: Tensor,
        reduction: Reduction = "auto",
    ) -> Tensor:
        """As `forward`, `-> []`; "auto" is the mean.

        Raises:
            ShapeError, DTypeError, ArgumentError, TargetError: as `forward`.
            ArgumentError: the reduction is "batch_mean" or unknown.
        """
        return reduced(self, self.forward(logits, targets, logit_lengths, target_lengths), reduction)

    def _check(self, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> None:
        expect_shape(self, logits, "batch", "time", "length + 1", "classes", name="logits")
        batch, time, length, classes = logits.shape
        if time == 0 or length == 0:
            raise ShapeError(f"RNNTLoss: logits: expected a time and a length + 1 above 0, got {list(logits.shape)}")
        expect_shape(self, targets, batch, length - 1, name="targets")
        expect_shape(self, logit_lengths, batch, name="logit_lengths")
        expect_shape(self, target_lengths, batch, name="target_lengths")
        expect_integers(self, targets)
        expect_integers(self, logit_lengths, "logit_lengths")
        expect_integers(self, target_lengths, "target_lengths")
        expect_class(self, self.blank, classes)
        expect_range(self, logit_lengths, 1, time, "logit_lengths")
        expect_range(self, target_lengths, 0, length - 1, "target_lengths")
