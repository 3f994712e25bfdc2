"""Cross-entropy of classes, and of yes or no."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import ArgumentError
from ...module import Content
from ...ops import cross_entropy, cross_entropy_reference
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import GivesLoss
from ..layer import Layer, exports_to_onnx, shape_error
from ..torch_counterpart import Counterpart, expect_only, refuse
from .configs import BinaryCrossEntropyLossConfig, CrossEntropyLossConfig
from .inputs import expect_equal_shapes, expect_integers, expect_range, expect_rows, range_error

NO_CLASS = -(2**63)
"""For torch's `ignore_index` where no target is ignored."""


class CrossEntropyLoss(GivesLoss, Layer):
    """-log p(target), the mean over the rows whose target is no pad token.

    With weights w: sum(w[target] * -log p(target)) / sum(w[target]). With smoothing a the target is 1 - a + a/classes
    for its class and a/classes for the others (Szegedy et al. 2016, section 7), each times the weight of its class.
    `weights` is `[classes]` or None, a constant that moves with the module.

    Torch: `nn.CrossEntropyLoss`.
    Differs: logits `[batch, classes]` only, no probabilities as targets; `pad_tokens` takes several indices,
    `ignore_index` of torch one; always the mean.
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

        Raises ShapeError for shapes that do not fit each other or the weights, DTypeError for targets of floats,
        TargetError for a target that is no class (on the CPU; CUDA aborts with an assertion).
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
        if padded is not None:
            picked = picked.masked_fill(padded, 0)
        return -picked.mean() if shares is None else -(picked * shares).sum() / shares.sum()

    def _shares(
        self, targets: Tensor, weights: Tensor | None, ignored: int, dtype: torch.dtype
    ) -> tuple[Tensor | None, Tensor | None]:
        """The weight of each row, None for all alike, and the rows that do not count."""
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


class BinaryCrossEntropyLoss(GivesLoss, Layer):
    """-(t * log p + (1 - t) * log(1 - p)), the mean over all values; p = sigmoid(x) of logits x, logarithms >= -100.

    With smoothing a the target t is t * (1 - a) + a / n, where n is the size of the last dimension, or 2 if there is
    only one dimension. `weights` are `[classes]` or None, a constant that moves with the module.

    Torch: `nn.BCELoss`, with `logits` `nn.BCEWithLogitsLoss`.
    Differs: targets may be integers; a weight for each class; label smoothing; always the mean.
    """

    weights: Tensor | None

    def __init__(self, config: BinaryCrossEntropyLossConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.weights = None if config.weights is None else torch.tensor(config.weights, device=device)
        self.smoothing = config.smoothing
        self.logits = config.logits

    @lift
    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """`[...], [...] -> []`; logits or probabilities, and targets 0 or 1, or probabilities as floats.

        Raises ShapeError if the shapes differ, or the last dimension is not that of the weights. With weights for
        targets of one dimension: DTypeError if they are floats, TargetError if one has no weight (on the CPU).
        ArgumentError if a probability is not in 0..1 (on the CPU).
        """
        expect_equal_shapes(self, logits, targets)
        weights = None if self.weights is None else self._weights_for(targets).to(logits.dtype)
        expected = targets.to(logits.dtype)
        if self.smoothing:
            classes = targets.shape[-1] if targets.ndim > 1 else 2
            expected = expected * (1 - self.smoothing) + self.smoothing / classes
        if self.logits:
            return functional.binary_cross_entropy_with_logits(logits, expected, weights)
        try:
            return functional.binary_cross_entropy(logits, expected, weights)
        except RuntimeError as error:
            if "between 0 and 1" not in str(error):
                raise
            raise ArgumentError(
                f"BinaryCrossEntropyLoss: expected probabilities and targets in 0..1, got probabilities in"
                f" {logits.min().item():g}..{logits.max().item():g}; for logits, set `logits: true`"
            ) from error

    def _weights_for(self, targets: Tensor) -> Tensor:
        assert self.weights is not None
        count = len(self.weights)
        if targets.ndim > 1:
            if targets.shape[-1] != count:
                raise shape_error(self, f"[..., {count}], as there are {count} weights", list(targets.shape))
            return self.weights
        expect_integers(self, targets)
        expect_range(self, targets, 0, count - 1)
        return self.weights[targets.long()]

    def custom_content(self, content: Content) -> Content:
        return content.add("weights", self.weights).add("smoothing", self.smoothing).add("logits", self.logits)


def _values(loss: nn.Module, weight: Tensor | None) -> tuple[float, ...] | None:
    if weight is None:
        return None
    if weight.is_meta:
        raise refuse(loss, "its weight has no values on the meta device")
    return tuple(weight.tolist())


def _cross_entropy_config(loss: nn.CrossEntropyLoss) -> CrossEntropyLossConfig:
    expect_only(loss, reduction="mean")
    return CrossEntropyLossConfig(
        pad_tokens=None if loss.ignore_index == NO_CLASS else (loss.ignore_index,),
        weights=_values(loss, loss.weight),
        smoothing=loss.label_smoothing or None,
    )


def _cross_entropy(loss: CrossEntropyLoss, device: torch.device) -> nn.CrossEntropyLoss:
    pads = [NO_CLASS] if loss.pad_tokens is None else [*loss.pad_tokens]
    expect_only(loss, logits=True)
    if len(pads) > 1:
        raise refuse(loss, "several pad_tokens have no counterpart")
    weight = None if loss.weights is None else loss.weights.clone().to(device)
    return nn.CrossEntropyLoss(weight, ignore_index=pads[0], label_smoothing=loss.smoothing or 0.0)


def _binary_config(loss: nn.BCELoss | nn.BCEWithLogitsLoss) -> BinaryCrossEntropyLossConfig:
    expect_only(loss, reduction="mean", weight=None, pos_weight=None)
    return BinaryCrossEntropyLossConfig(logits=isinstance(loss, nn.BCEWithLogitsLoss))


def _binary(loss: Any, _device: torch.device) -> nn.Module:
    expect_only(loss, weights=None, smoothing=None)
    return nn.BCEWithLogitsLoss() if loss.logits else nn.BCELoss()


COUNTERPARTS = [
    Counterpart(
        "CrossEntropyLoss", nn.CrossEntropyLoss, _cross_entropy_config, _cross_entropy, constants={"weights": "weight"}
    ),
    # Their targets are whole numbers, torch's are floats.
    Counterpart("BinaryCrossEntropyLoss", nn.BCELoss, _binary_config, _binary, call="other"),
    Counterpart("BinaryCrossEntropyLoss", nn.BCEWithLogitsLoss, _binary_config, _binary, call="other"),
]
