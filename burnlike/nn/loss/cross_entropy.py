"""Cross-entropy of classes."""

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..layer import Layer, expect_shape
from .configs import CrossEntropyLossConfig
from .inputs import expect_integers, expect_range, range_error

NO_CLASS = -(2**63)
"""For torch's `ignore_index` where no target is ignored."""


class CrossEntropyLoss(Layer):
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
        expect_shape(self, logits, "batch", "classes" if self.weights is None else len(self.weights))
        expect_shape(self, targets, logits.shape[0], name="targets")
        expect_integers(self, targets)
        targets = targets.long()
        if not self.logits or (self.smoothing and self.weights is not None):
            return self._by_formula(logits, targets)
        weights = None if self.weights is None else self.weights.to(logits.dtype)
        if self.pad_tokens is not None and len(self.pad_tokens) > 1:
            targets = targets.masked_fill(self._padded(targets), self.pad_tokens[0])
        ignored = NO_CLASS if self.pad_tokens is None else self.pad_tokens[0]
        try:
            return functional.cross_entropy(
                logits, targets, weights, ignore_index=ignored, label_smoothing=self.smoothing or 0.0
            )
        except IndexError as error:
            outside = targets if self.pad_tokens is None else targets[~self._padded(targets)]
            raise range_error(self, outside, 0, logits.shape[1] - 1) from error

    def _by_formula(self, x: Tensor, targets: Tensor) -> Tensor:
        """What torch has no function for: probabilities, and smoothing together with weights and pad tokens."""
        padded = None if self.pad_tokens is None else self._padded(targets)
        if padded is not None:
            targets = targets.masked_fill(padded, 0)
        expect_range(self, targets, 0, x.shape[1] - 1)
        index = targets[:, None]
        smoothing = self.smoothing or 0.0
        # The root of the smallest number is what Burn takes for the logarithm of 0.
        least = torch.finfo(x.dtype).tiny ** 0.5
        weights = None if self.weights is None else self.weights.to(x.dtype)
        shares = None if weights is None else weights[targets]
        if smoothing:
            log_probs = x.log_softmax(1) if self.logits else x.clamp_min(least).log()
            spread = log_probs.sum(1) if weights is None else log_probs @ weights
            picked = log_probs.gather(1, index)[:, 0]
        else:
            spread = None
            picked = x.gather(1, index)[:, 0].clamp_min(least).log()
        loss = picked if shares is None else picked * shares
        if spread is not None:
            loss = loss * (1 - smoothing) + spread * (smoothing / x.shape[1])
        if padded is not None:
            loss = loss.masked_fill(padded, 0)
            kept = (~padded).to(x.dtype)
            shares = kept if shares is None else shares * kept
        return -loss.mean() if shares is None else -loss.sum() / shares.sum()

    def _padded(self, targets: Tensor) -> Tensor:
        first, *others = self.pad_tokens or ()
        padded = targets == first
        for token in others:
            padded = padded | (targets == token)
        return padded

    def custom_content(self, content: Content) -> Content:
        pads = "None" if self.pad_tokens is None else f"Vec<0..{len(self.pad_tokens)}>"
        content = content.add("pad_tokens", pads).add("weights", self.weights)
        return content.add("smoothing", self.smoothing).add("logits", self.logits)
