"""Similarity and distance of vectors."""

import sys

import torch
from torch import Tensor, linalg, nn
from torch.nn import functional

from ..tensor.torch_bridge.torch_function import lift
from .call_types import ChangesRank
from .configs import CosineSimilarityConfig, PairwiseDistanceConfig
from .layer import ConfiguredLayer, expect_shape, shape_error
from .torch_counterpart import Counterpart, alike, expect_only, refuse

# Pickles of burnlike 0.1.0 name the module that this file was.
sys.modules[f"{__name__}.similarity"] = sys.modules[__name__]


class CosineSimilarity(ChangesRank, ConfiguredLayer, config=CosineSimilarityConfig):
    """The sum of x1 / max(|x1|, eps) * x2 / max(|x2|, eps) along the dimension `dim`.
    Torch: `nn.CosineSimilarity`. Differs: vectors shorter than `eps` have the gradients of the formula.
    """

    dim: int
    eps: float

    @lift
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """`[batch, size], [batch, size] -> [batch]`, or any other shape, without the dimension `dim`."""
        expect_pair(self, x1, x2)
        if not -x1.ndim <= self.dim < x1.ndim:
            raise shape_error(self, f"an input with the dimension {self.dim}", list(x1.shape), name="x1")
        norms = (linalg.vector_norm(it, dim=self.dim, keepdim=True).clamp_min(self.eps) for it in (x1, x2))
        return torch.mul(*(it / norm for it, norm in zip((x1, x2), norms, strict=True))).sum(self.dim)


class PairwiseDistance(ChangesRank, ConfiguredLayer, config=PairwiseDistanceConfig):
    """The p-norm of x1 - x2 + eps along the last dimension. Torch: `nn.PairwiseDistance`. Differs: no `keepdim`."""

    p: float
    eps: float

    @lift
    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """`[..., size], [..., size] -> [...]`; sizes of 1 are repeated."""
        expect_shape(self, x1, "...", "size", name="x1")
        expect_pair(self, x1, x2)
        return functional.pairwise_distance(x1, x2, self.p, self.eps)


def expect_pair(layer: object, x1: Tensor, x2: Tensor) -> None:
    """Raise ShapeError if two inputs don't have as many dimensions, of sizes that are equal or 1."""
    sizes = zip(x1.shape, x2.shape, strict=False)
    if x1.ndim != x2.ndim or any(one != other and one != 1 and other != 1 for one, other in sizes):
        raise shape_error(layer, f"the sizes of x1, {list(x1.shape)}, or 1", list(x2.shape), name="x2")


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
