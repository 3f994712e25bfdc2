"""The configs of losses with margins. Imports no torch."""

from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta, ModuleConfig
from ...config.bounds import Finite, NotNegative, Positive

if TYPE_CHECKING:
    from .margins import (
        CosineEmbeddingLoss,
        HingeEmbeddingLoss,
        MarginRankingLoss,
        MultiMarginLoss,
        SoftMarginLoss,
        TripletMarginLoss,
    )


class CosineEmbeddingLossConfig(ModuleConfig["CosineEmbeddingLoss"], tag="CosineEmbeddingLoss", builds=".margins"):
    """Draws pairs of vectors together or apart by their angle.

    Attributes:
        margin: cosine up to which vectors are apart enough.
        reduction: of `forward`.
    """

    margin: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    reduction: Literal["mean", "sum", "auto"] = "mean"


class HingeEmbeddingLossConfig(ModuleConfig["HingeEmbeddingLoss"], tag="HingeEmbeddingLoss", builds=".margins"):
    """Distances of pairs: small if they belong together, at least a margin if not.

    Attributes:
        margin: distance from which pairs are apart enough.
    """

    margin: Finite = 1.0


class MarginRankingLossConfig(ModuleConfig["MarginRankingLoss"], tag="MarginRankingLoss", builds=".margins"):
    """Which of two scores is to be the larger one.

    Attributes:
        margin: by how much it is to be larger.
    """

    margin: NotNegative = 0.0


class MultiMarginLossConfig(ModuleConfig["MultiMarginLoss"], tag="MultiMarginLoss", builds=".margins"):
    """The score of the target class is to exceed the others by a margin.

    Attributes:
        margin: by how much it is to exceed them.
        p: power of what is missing, 1 or 2.
    """

    margin: NotNegative = 1.0
    p: Literal[1, 2] = 1


class SoftMarginLossConfig(ModuleConfig["SoftMarginLoss"], tag="SoftMarginLoss", builds=".margins"):
    """The logistic loss of targets -1 and 1."""


class TripletMarginLossConfig(ModuleConfig["TripletMarginLoss"], tag="TripletMarginLoss", builds=".margins"):
    """An anchor is to be nearer to one vector than to another (Balntas et al. 2016).

    Attributes:
        margin: by how much it is to be nearer.
        p: of the norm that measures distances.
    """

    margin: Finite = 1.0
    p: Positive = 2.0
