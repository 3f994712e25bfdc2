"""Losses of all alignments of a target with a sequence: CTC and the transducer's."""

import torch
from torch import Tensor, nn

from ..._torch_compat.dispatch import ctc_losses
from ...errors import ArgumentError, ShapeError, TargetError
from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank
from ..layer import FromConfig, expect_shape
from .alignments import arc_scores, minus_log_likelihood
from .configs import CTCLossConfig, Reduction, RNNTLossConfig
from .inputs import by_word, expect_integers, expect_range, loss_pair, mean_or_sum, readable, reduced, wide


class CTCLoss(ChangesRank, FromConfig, Module):
    """-log of the probability of all alignments of the target with the sequence (Graves et al. 2006, eq. 3 and 8).

    The loss of a target without alignment is infinite, or 0 by `zero_infinity`; its gradient is 0. Other
    gradients are those with respect to logits whose `log_softmax` the inputs are, as torch computes them.

    Torch: `nn.CTCLoss`.
    Differs: `forward` gives a loss for each sequence; `forward_with_reduction` reduces; targets are padded, `[batch,
    length]`; a target without alignment does not make gradients NaN.
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

        Raises ShapeError or DTypeError for other inputs, ArgumentError if `blank` is no class, TargetError if a target
        is no class, or a length exceeds its dimension (on the CPU).
        """
        self._check(log_probs, targets, input_lengths, target_lengths)
        x = wide(log_probs)
        if not x.shape[1]:  # which torch refuses
            return log_probs.sum((0, 2))
        labels = targets.to(x.device, torch.int64)
        try:
            loss, _ = ctc_losses(x, labels, input_lengths, target_lengths, self.blank, True)
        except RuntimeError:
            expect_range(self, input_lengths, 0, x.shape[0], "input_lengths")
            expect_range(self, target_lengths, 0, targets.shape[1], "target_lengths")
            raise
        if self.zero_infinity:
            loss = loss.masked_fill(loss == torch.inf, 0)
        return loss.to(log_probs.dtype)

    @lift
    def forward_with_reduction(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        reduction: Reduction = "auto",
    ) -> Tensor:
        """As `forward`, `-> []`; "mean" ("auto") is that of losses divided by targets' lengths; no "batch_mean"."""
        word = mean_or_sum(self, reduction)
        loss = self.forward(wide(log_probs), targets, input_lengths, target_lengths)
        if word == "mean":
            loss = loss / target_lengths.to(loss.device).clamp_min(1)
        return by_word(loss, word).to(log_probs.dtype)

    def _check(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> None:
        expect_shape(self, log_probs, "time", "batch", "classes", name="log_probs")
        time, batch, classes = log_probs.shape
        if time == 0:
            raise ShapeError(f"CTCLoss: log_probs: expected a time above 0, got {list(log_probs.shape)}")
        lengths = {"input_lengths": input_lengths, "target_lengths": target_lengths}
        _expect_targets(self, batch, "length", classes, targets, lengths)
        try:
            expect_range(self, targets, 0, classes - 1)
        except TargetError:  # which may be behind the end of a target
            if not readable(target_lengths):
                raise
            position = torch.arange(targets.shape[1])
            expect_range(self, targets[position < target_lengths[:, None]], 0, classes - 1)


class RNNTLoss(ChangesRank, FromConfig, Module):
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

        Beside the inputs and their gradient, memory for a few numbers for each sample, time and label is taken. The
        lengths of logits are in 1..time; targets, their lengths and errors are as of `CTCLoss`.

        Args:
            logits: or logarithms of probabilities, as the config says; half precision is computed in float32.
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
        """As `forward`, `-> []`, reduced as `MseLoss` does it."""
        return reduced(self, self.forward(logits, targets, logit_lengths, target_lengths), reduction)

    def _check(self, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> None:
        expect_shape(self, logits, "batch", "time", "length + 1", "classes", name="logits")
        batch, time, length, classes = logits.shape
        if time == 0 or length == 0:
            raise ShapeError(f"RNNTLoss: logits: expected a time and a length + 1 above 0, got {list(logits.shape)}")
        lengths = {"logit_lengths": logit_lengths, "target_lengths": target_lengths}
        _expect_targets(self, batch, length - 1, classes, targets, lengths)
        expect_range(self, logit_lengths, 1, time, "logit_lengths")
        expect_range(self, target_lengths, 0, length - 1, "target_lengths")


def _expect_targets(
    layer: CTCLoss | RNNTLoss, batch: int, length: int | str, classes: int, targets: Tensor, lengths: dict[str, Tensor]
) -> None:
    expect_shape(layer, targets, batch, length, name="targets")
    for name, tensor in lengths.items():
        expect_shape(layer, tensor, batch, name=name)
    for name, tensor in {"targets": targets, **lengths}.items():
        expect_integers(layer, tensor, name)
    if layer.blank >= classes:
        expected = f"one of the classes 0..{classes - 1}, got {layer.blank}"
        raise ArgumentError(f"{type(layer).__name__}: blank: expected {expected}")


COUNTERPARTS = [
    loss_pair(CTCLossConfig, nn.CTCLoss, "none"),
]
