"""The configs of similarities and distances. Imports no torch."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import Dimension, Finite, NotNegative

if TYPE_CHECKING:
    from . import similarity


class CosineSimilarityConfig(ModuleConfig["similarity.CosineSimilarity"], tag="CosineSimilarity"):
    """The cosine of the angle between vectors.

    Attributes:
        dim: along which the vectors lie; negative ones count from the last.
        eps: the smallest length that a vector is divided by.
    """

    dim: Dimension = 1
    eps: NotNegative = 1e-8


class PairwiseDistanceConfig(ModuleConfig["similarity.PairwiseDistance"], tag="PairwiseDistance"):
    """The p-norm of the difference of vectors.

    Attributes:
        p: of the norm; infinity for the largest difference.
        eps: added to each difference.
    """

    p: Annotated[float, Meta(ge=0)] = 2.0
    eps: Finite = 1e-6
