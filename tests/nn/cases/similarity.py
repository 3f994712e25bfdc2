"""Cases of similarities and distances."""

import math
from typing import Any

from torch import Tensor

from burnlike import nn

from . import Case, floats


def pair(*shape: int):
    return lambda: (floats(*shape), floats(*shape))


def cosine(layer: Any, x1: Tensor, x2: Tensor) -> Tensor:
    """The formula; torch's own gradients of vectors shorter than `eps` are others."""
    lengths = [it.square().sum(1, keepdim=True).sqrt().clamp(min=layer.eps) for it in (x1, x2)]
    return (x1 * x2 / (lengths[0] * lengths[1])).sum(1)


CASES = [
    Case("CosineSimilarity", nn.CosineSimilarityConfig(), pair(3, 5), bad_shapes=((3, 4), (3,), (2, 5))),
    Case("CosineSimilarity/dim", nn.CosineSimilarityConfig(dim=-2), pair(3, 5, 2)),
    Case("CosineSimilarity/eps", nn.CosineSimilarityConfig(eps=2.5), pair(3, 5), reference=cosine),
    Case("CosineSimilarity/broadcast", nn.CosineSimilarityConfig(dim=2), lambda: (floats(3, 1, 5), floats(1, 2, 5))),
    Case("PairwiseDistance", nn.PairwiseDistanceConfig(), pair(3, 5), bad_shapes=((3, 4), (), (3, 3, 5))),
    Case("PairwiseDistance/1", nn.PairwiseDistanceConfig(p=1.0, eps=0.5), pair(3, 5)),
    Case("PairwiseDistance/odd", nn.PairwiseDistanceConfig(p=3.0), pair(5)),
    Case("PairwiseDistance/largest", nn.PairwiseDistanceConfig(p=math.inf), pair(2, 3, 5)),
]
