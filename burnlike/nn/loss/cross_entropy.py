"""Cross-entropy of classes."""

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...ops import cross_entropy, cross_entropy_reference
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import GivesLoss
from ..layer import Layer, exports_to_onnx
from .configs import CrossEntropyLossConfig
from .inputs import expect_range, expect_rows, range_error

NO_CLASS = -(2**63)
"""For torch's `ignore_index` where no target is ignored."""


class CrossEntropyLoss(GivesLoss, Layer):
    """-log p(target), the mean over the rows whose target is no pad token.

    With weights w: sum(w[target] * -log p(target)) / sum(w[target]). With smoothing a the target is 1 - a + a/classes
    for its class and a/classes for the others (Szegedy et al. 2016, section 7), each times the weight of its class.

    Torch: `nn.CrossEntropyLoss`.
    Differs: logits `[batch, classes]` only, no probabilities as targets; `pad_tokens` are several of torch's
    `ignore_index`; always the mean.

    Attributes:
        pad_tokens: targets whose rows do not count, or None.
        weights: `[classes]` or None; a constant that moves with the module.
        smoothing: a, or None.
        logits: whether the inputs are logits.
    """

    weights: Tensor | None

    def __init__(self, config: CrossEntropyLossConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.pad_tokens = config.pad_tokens
        self.weights = None if config.weights is None else torch.tensor(config.weights, device=device)
        self.smoothing = config.smoothing
        self.logits = config.logits

    @lift
    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """`[batch, classes], [batch] -> []`; NaN if all targets are pad tokens.

        Raises:
            ShapeError: the shapes do not fit each other or the weights.
            DTypeError: the targets are no integers.
            TargetError: a target is no class (on the CPU; CUDA aborts with an assertion).
        """
        weights = self.weights
        targets = expect_rows(self, logits, targets, None if weights is None else len(weights))
        if weights is not None and weights.dtype != logits.dtype:
            weights = weights.to(logits.dtype)
        ignored = NO_CLASS
        if self.pad_tokens is not None:
            ignored = self.pad_tokens[0]
            if len(self.pad_tokens) > 1:
                targets = targets.masked_fill(self._padded(targets), ignored)
        smoothing = self.smoothing or 0.0
        try:
            if self.logits:
                loss = cross_entropy_reference if exports_to_onnx() else cross_entropy
                return loss(logits, targets, weights, ignored, smoothing)
            if smoothing:
                return self._smoothed(_log(logits), targets, weights, ignored, smoothing)
            return self._of_probabilities(logits, targets, weights, ignored)
        except IndexError as error:
            outside = targets if self.pad_tokens is None else targets[~self._padded(targets)]
            raise range_error(self, outside, 0, logits.shape[1] - 1) from error

    def _smoothed(
        self, log_probs: Tensor, targets: Tensor, weights: Tensor | None, ignored: int, smoothing: float
    ) -> Tensor:
        """Smoothing as torch has it for logits, where weights and pad tokens need no selection of rows."""
        hard = functional.nll_loss(log_probs, targets, weights, ignore_index=ignored)
        spread = (log_probs if weights is None else log_probs * weights).sum(1)
        shares, padded = self._shares(targets, weights, ignored, spread.dtype)
        if padded is not None:
            spread = spread.masked_fill(padded, 0)
        soft = spread.mean() if shares is None else spread.sum() / shares.sum()
        return hard * (1 - smoothing) - soft * (smoothing / log_probs.shape[1])

    def _of_probabilities(self, x: Tensor, targets: Tensor, weights: Tensor | None, ignored: int) -> Tensor:
        """Logarithms of the targets' probabilities alone, not of all classes."""
        shares, padded = self._shares(targets, weights, ignored, x.dtype)
        if padded is not None:
            targets = targets.masked_fill(padded, 0)
        expect_range(self, targets, 0, x.shape[1] - 1)
        picked = _log(x.gather(1, targets[:, None])[:, 0])
        return -picked.mean() if shares is None else -(picked * shares).sum() / shares.sum()

    def _shares(
        self, targets: Tensor, weights: Tensor | None, ignored: int, dtype: torch.dtype
    ) -> tuple[Tensor | None, Tensor | None]:
        """How much each row counts, None for all alike, and which rows do not count."""
        if self.pad_tokens is None:
            return None if weights is None else weights[targets], None
        padded = targets == ignored
        if weights is None:
            return (~padded).to(dtype), padded
        return weights[targets.masked_fill(padded, 0)].masked_fill(padded, 0), padded

    def _padded(self, targets: Tensor) -> Tensor:
        assert self.pad_tokens is not None
        padded = targets == self.pad_tokens[0]
        for token in self.pad_tokens[1:]:
            padded = padded | (targets == token)
        return padded

    def custom_content(self, content: Content) -> Content:
        pads = "None" if self.pad_tokens is None else f"Vec<0..{len(self.pad_tokens)}>"
        content = content.add("pad_tokens", pads).add("weights", self.weights)
        return content.add("smoothing", self.smoothing).add("logits", self.logits)


def _log(probabilities: Tensor) -> Tensor:
    """The logarithm; that of 0 is that of the root of the smallest number, as in Burn."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny ** 0.5).log()
