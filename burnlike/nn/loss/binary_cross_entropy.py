"""Cross-entropy of yes or no."""

import torch
from torch import Tensor
from torch.nn import functional

from ...errors import ArgumentError
from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import GivesLoss
from ..layer import Layer, shape_error
from .configs import BinaryCrossEntropyLossConfig
from .inputs import expect_equal_shapes, expect_integers, expect_range


class BinaryCrossEntropyLoss(GivesLoss, Layer):
    """-(t * log p + (1 - t) * log(1 - p)), the mean over all values; p = sigmoid(x) of logits x, logarithms >= -100.

    With smoothing a the target t is t * (1 - a) + a / n, where n is the size of the last dimension, or 2 if there is
    only one dimension.

    Torch: `nn.BCELoss`, with `logits` `nn.BCEWithLogitsLoss`.
    Differs: targets may be integers; weights are of classes; label smoothing; always the mean.

    Attributes:
        weights: `[classes]` or None: the classes are the last dimension, or the targets 0 and 1 if there is only one
            dimension. A constant that moves with the module.
        smoothing: a, or None.
        logits: whether the inputs are logits.
    """

    weights: Tensor | None

    def __init__(self, config: BinaryCrossEntropyLossConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.weights = None if config.weights is None else torch.tensor(config.weights, device=device)
        self.smoothing = config.smoothing
        self.logits = config.logits

    @lift
    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """`[...], [...] -> []`.

        Args:
            logits: or probabilities, as the config says.
            targets: 0 or 1, or probabilities as floats.

        Raises:
            ShapeError: the shapes differ, or the last dimension is not that of the weights.
            DTypeError: the targets of one dimension, of which each has its weight, are no integers.
            TargetError: such a target has no weight (on the CPU).
            ArgumentError: a probability is not in 0..1 (on the CPU).
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
