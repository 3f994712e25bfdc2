"""Weight normalization as a reparameterization (Salimans & Kingma 2016, arXiv:1602.07868, eq. 2)."""

import torch
from torch import Tensor, nn

from ...errors import ArgumentError
from .reparameterization import Reparameterization


class WeightNorm(Reparameterization):
    """weight * g / |weight|: the direction is that of the parameter, the magnitude is `g`.

    Made of a weight, it starts with that weight's magnitudes, so that applying it changes nothing:
    `apply_reparameterization(model, lambda param: WeightNorm(param.base(), 1) if param.tensor.dim() > 1 else None)`.

    Attributes:
        g: `[weight.shape[dim]]`, the Euclidean norm of each slice along `dim`.
        dim: the dimension that counts the vectors of which each is normalized: that of the layer's outputs, 1 of
            `burnlike.nn.Linear` and 0 of `torch.nn.Linear`.
    """

    reparameterization_name = "weight_norm"

    def __init__(self, weight: Tensor, dim: int = 1) -> None:
        """For `weight`, of any rank above 1.

        Raises:
            ArgumentError: `weight` has no dimension `dim`.
        """
        super().__init__()
        if not 0 <= dim < weight.dim():
            raise ArgumentError(f"expected dim to be one of the {weight.dim()} dimensions of the weight, got {dim}")
        self.dim = dim
        self.g = nn.Parameter(self._norm(weight.detach()).flatten())

    def forward(self, base: Tensor) -> Tensor:
        norm = self._norm(base)
        return base * (self.g.view(norm.shape) / norm)

    def _norm(self, weight: Tensor) -> Tensor:
        others = [dim for dim in range(weight.dim()) if dim != self.dim]
        return torch.linalg.vector_norm(weight, dim=others, keepdim=True)
