"""torch's counterparts of similarities and distances."""

import torch
from torch import nn

from ..torch_counterpart import Counterpart, alike, refuse
from .configs import CosineSimilarityConfig, PairwiseDistanceConfig
from .similarity import PairwiseDistance


def _distance_config(layer: nn.PairwiseDistance) -> PairwiseDistanceConfig:
    if layer.keepdim:
        raise refuse(layer, "keepdim=True has no counterpart")
    if layer.norm < 0:
        raise refuse(layer, f"p={layer.norm} has no counterpart")
    return PairwiseDistanceConfig(p=layer.norm, eps=layer.eps)


def _distance_built(layer: PairwiseDistance, device: torch.device) -> nn.PairwiseDistance:
    return nn.PairwiseDistance(layer.p, layer.eps)


COUNTERPARTS = [
    alike("CosineSimilarity", nn.CosineSimilarity, CosineSimilarityConfig),
    Counterpart("PairwiseDistance", nn.PairwiseDistance, _distance_config, _distance_built),
]
