"""The configs of losses with margins. Imports no torch."""

from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta, ModuleConfig
from ...config.bounds import Finite, NotNegative, Positive

if TYPE_CHECKING:
    import torch

    from .cosine_embedding import CosineEmbeddingLoss
    from .margins import (
        HingeEmbeddingLoss,
        MarginRankingLoss,
        MultiMarginLoss,
        SoftMarginLoss,
        TripletMarginLoss,
    )


class CosineEmbeddingLossConfig(ModuleConfig, tag="CosineEmbeddingLoss"):
    """Draws pairs of vectors together or apart by their angle.

    Attributes:
        margin: cosine up to which vectors are apart enough.
        reduction: of `forward`.
    """

    margin: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    reduction: Literal["mean", "sum", "auto"] = "mean"

    def init(self, device: "torch.device | str | None" = None) -> "CosineEmbeddingLoss":
        """Make the loss; it has no tensors, so `device` does not matter."""
        from .cosine_embedding import CosineEmbeddingLoss

        return CosineEmbeddingLoss(self)


class HingeEmbeddingLossConfig(ModuleConfig, tag="HingeEmbeddingLoss"):
    """Distances of pairs: small if they belong together, at least a margin if not.

    Attributes:
        margin: distance from which pairs are apart enough.
    """

    margin: Finite = 1.0

    def init(self, device: "torch.device | str | None" = None) -> "HingeEmbeddingLoss":
        """Make the loss; it has no tensors, so `device` does not matter."""
        from .margins import HingeEmbeddingLoss

        return HingeEmbeddingLoss(self)


class MarginRankingLossConfig(ModuleConfig, tag="MarginRankingLoss"):
    """Which of two scores is to be the larger one.

    Attributes:
        margin: by how much it is to be larger.
    """

    margin: NotNegative = 0.0

    def init(self, device: "torch.device | str | None" = None) -> "MarginRankingLoss":
        """Make the loss; it has no tensors, so `device` does not matter."""
        from .margins import MarginRankingLoss

        return MarginRankingLoss(self)


class MultiMarginLossConfig(ModuleConfig, tag="MultiMarginLoss"):
    """The score of the target class is to exceed the others by a margin.

    Attributes:
        margin: by how much it is to exceed them.
        p: power of what is missing, 1 or 2.
    """

    margin: NotNegative = 1.0
    p: Literal[1, 2] = 1

    def init(self, device: "torch.device | str | None" = None) -> "MultiMarginLoss":
        """Make the loss; it has no tensors, so `device` does not matter."""
        from .margins import MultiMarginLoss

        return MultiMarginLoss(self)


class SoftMarginLossConfig(ModuleConfig, tag="SoftMarginLoss"):
    """The logistic loss of targets -1 and 1."""

    def init(self, device: "torch.device | str | None" = None) -> "SoftMarginLoss":
        """Make the loss; it has no tensors, so `device` does not matter."""
        from .margins import SoftMarginLoss

        return SoftMarginLoss()


class TripletMarginLossConfig(ModuleConfig, tag="TripletMarginLoss"):
    """An anchor is to be nearer to one vector than to another (Balntas et al. 2016).

    Attributes:
        margin: by how much it is to be nearer.
        p: of the norm that measures distances.
    """

    margin: Finite = 1.0
    p: Positive = 2.0

    def init(self, device: "torch.device | str | None" = None) -> "TripletMarginLoss":
        """Make the loss; it has no tensors, so `device` does not matter."""
        from .margins import TripletMarginLoss

        return TripletMarginLoss(self)
