"""Losses that are 0 once a margin is kept."""

from typing import Any

import torch
from torch import Tensor, linalg, nn
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import GivesLoss
from ..layer import ConfiguredLayer, Layer, expect_shape
from ..torch_counterpart import Counterpart, refuse
from . import configs
from .configs import Reduction
from .inputs import expect_equal_shapes, expect_rows, loss_pair, range_error, reduced, wide


class HingeEmbeddingLoss(GivesLoss, ConfiguredLayer, config=configs.HingeEmbeddingLossConfig):
    """x where the target is 1, max(0, margin - x) elsewhere; x are distances (Hadsell et al. 2006).
    Torch: `nn.HingeEmbeddingLoss`. Differs: the reduction is an argument.
    """

    margin: float

    @lift
    def forward(self, input: Tensor, target: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[...], [...] -> []`, reduced and checked as `MseLoss` does it."""
        return reduced(self, self.forward_no_reduction(input, target), reduction)

    @lift
    def forward_no_reduction(self, input: Tensor, target: Tensor) -> Tensor:
        """As `forward`, not reduced: `[...], [...] -> [...]`."""
        expect_equal_shapes(self, input, target, "target")
        return (self.margin - input).clamp_min(0).where(target != 1, input)


class MarginRankingLoss(GivesLoss, ConfiguredLayer, config=configs.MarginRankingLossConfig):
    """max(0, margin - target * (first - second)); a target of 1 ranks `first` higher, -1 `second`.
    Torch: `nn.MarginRankingLoss`. Differs: the reduction is an argument.
    """

    margin: float

    @lift
    def forward(self, first: Tensor, second: Tensor, target: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[...], [...], [...] -> []`, reduced and checked as `MseLoss` does it."""
        return reduced(self, self.forward_no_reduction(first, second, target), reduction)

    @lift
    def forward_no_reduction(self, first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        """As `forward`, not reduced: `[...], [...], [...] -> [...]`."""
        expect_equal_shapes(self, first, second, "second")
        expect_equal_shapes(self, first, target, "target")
        return functional.relu(self.margin - target * (first - second))


class MultiMarginLoss(GivesLoss, ConfiguredLayer, config=configs.MultiMarginLossConfig):
    """sum over j != y of max(0, margin - x[y] + x[j])^p, divided by the number of classes; y is the target.
    Torch: `nn.MultiMarginLoss`. Differs: no weights of classes; the reduction is an argument.
    """

    margin: float
    p: int

    @lift
    def forward(self, input: Tensor, target: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[batch, classes], [batch] -> []`, reduced as `MseLoss` does it.

        Raises DTypeError if targets are no integers, TargetError if one is no class (on the CPU; CUDA aborts).
        """
        return reduced(self, self.forward_no_reduction(input, target), reduction)

    @lift
    def forward_no_reduction(self, input: Tensor, target: Tensor) -> Tensor:
        """As `forward`, not reduced: `[batch, classes], [batch] -> [batch]`."""
        target = expect_rows(self, input, target, name="target")
        # torch has no kernel of it for half precision on the CPU.
        scores = wide(input) if input.is_cpu else input
        try:
            # torch's own reductions give memory as it was for an empty batch.
            loss = functional.multi_margin_loss(scores, target, self.p, self.margin, reduction="none")
            return loss if scores is input else loss.to(input.dtype)
        except RuntimeError as error:
            if "out of range" not in str(error):
                raise
            raise range_error(self, target, 0, input.shape[1] - 1, "target") from error


class SoftMarginLoss(GivesLoss, Layer):
    """log(1 + exp(-target * logit)), of targets -1 and 1.
    Torch: `nn.SoftMarginLoss`. Differs: the reduction is an argument.
    """

    @lift
    def forward(self, logits: Tensor, targets: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[...], [...] -> []`, reduced and checked as `MseLoss` does it."""
        return reduced(self, self.forward_no_reduction(logits, targets), reduction)

    @lift
    def forward_no_reduction(self, logits: Tensor, targets: Tensor) -> Tensor:
        """As `forward`, not reduced: `[...], [...] -> [...]`."""
        expect_equal_shapes(self, logits, targets)
        return functional.softplus(-targets * logits)


class TripletMarginLoss(GivesLoss, ConfiguredLayer, config=configs.TripletMarginLossConfig):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with distances in the p-norm (Balntas et al. 2016).
    Torch: `nn.TripletMarginLoss`. Differs: no `eps`, no `swap`; the reduction is an argument.
    """

    margin: float
    p: float

    @lift
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[batch, size]` each `-> []`, reduced and checked as `MseLoss` does it."""
        return reduced(self, self.forward_no_reduction(anchor, positive, negative), reduction)

    @lift
    def forward_no_reduction(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """As `forward`, not reduced: `-> [batch]`."""
        expect_shape(self, anchor, "batch", "size")
        expect_equal_shapes(self, anchor, positive, "positive")
        expect_equal_shapes(self, anchor, negative, "negative")
        near = linalg.vector_norm(anchor - positive, self.p, dim=1)
        far = linalg.vector_norm(anchor - negative, self.p, dim=1)
        return (near - far + self.margin).clamp_min(0)


class CosineEmbeddingLoss(GivesLoss, ConfiguredLayer, config=configs.CosineEmbeddingLossConfig):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, 0 elsewhere.
    Torch: `nn.CosineEmbeddingLoss`. Differs: the reduction is `mean` or `sum`; `forward_no_reduction` doesn't reduce.
    """

    margin: float
    reduction: Reduction

    @lift
    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """`[batch, size], [batch, size], [batch] -> []`, reduced as the config says."""
        return reduced(self, self.forward_no_reduction(input1, input2, target), self.reduction)

    @lift
    def forward_no_reduction(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """As `forward`, not reduced: `[batch, size], [batch, size], [batch] -> [batch]`."""
        expect_shape(self, input1, "batch", "size")
        expect_equal_shapes(self, input1, input2, "input2")
        expect_shape(self, target, input1.shape[0], name="target")
        # As functional.cosine_similarity, in less time: no vector is divided by its norm.
        first, second = wide(input1), wide(input2)
        # No eps but what keeps gradients finite: squares of lesser norms underflow.
        least = max(torch.finfo(input1.dtype).tiny ** 2, torch.finfo(first.dtype).tiny)
        norms = [linalg.vecdot(it, it).clamp_min(least).sqrt() for it in (first, second)]
        cosine = (linalg.vecdot(first, second) / norms[0] / norms[1]).to(input1.dtype)
        apart = functional.relu(cosine - self.margin).where(target == -1, 0)
        return (1 - cosine).where(target == 1, apart)

    def custom_content(self, content: Content) -> Content:
        return content.add("margin", self.margin).add("reduction", self.reduction.capitalize())


def _cosine_config(loss: nn.CosineEmbeddingLoss) -> configs.CosineEmbeddingLossConfig:
    if loss.reduction == "none":
        raise refuse(loss, "reduction='none' has no counterpart; call forward_no_reduction")
    return configs.CosineEmbeddingLossConfig(margin=loss.margin, reduction=loss.reduction)  # pyright: ignore[reportArgumentType]


def _cosine(loss: Any, _device: torch.device) -> nn.CosineEmbeddingLoss:
    return nn.CosineEmbeddingLoss(loss.margin, reduction="sum" if loss.reduction == "sum" else "mean")


COUNTERPARTS = [
    Counterpart("CosineEmbeddingLoss", nn.CosineEmbeddingLoss, _cosine_config, _cosine),
    loss_pair(configs.HingeEmbeddingLossConfig, nn.HingeEmbeddingLoss),
    loss_pair(configs.MarginRankingLossConfig, nn.MarginRankingLoss),
    loss_pair(configs.MultiMarginLossConfig, nn.MultiMarginLoss, weight=None),
    loss_pair(configs.SoftMarginLossConfig, nn.SoftMarginLoss),
    loss_pair(configs.TripletMarginLossConfig, nn.TripletMarginLoss, eps=0.0, swap=False),
]
