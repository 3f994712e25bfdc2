"""torch's counterparts of similarities and distances."""

from torch import nn

from ..torch_counterpart import Counterpart, alike, expect_only, refuse
from .configs import CosineSimilarityConfig, PairwiseDistanceConfig


def _distance_config(layer: nn.PairwiseDistance) -> PairwiseDistanceConfig:
    expect_only(layer, keepdim=False)
    if layer.norm < 0:
        raise refuse(layer, f"p={layer.norm} has no counterpart")
    return PairwiseDistanceConfig(p=layer.norm, eps=layer.eps)


COUNTERPARTS = [
    alike(CosineSimilarityConfig, nn.CosineSimilarity),
    Counterpart(
        "PairwiseDistance", nn.PairwiseDistance, _distance_config, lambda it, device: nn.PairwiseDistance(it.p, it.eps)
    ),
]
