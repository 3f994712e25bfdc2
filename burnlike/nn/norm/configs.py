"""The configs of normalizations. Imports no torch."""

from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Positive, Size

if TYPE_CHECKING:
    import torch

    from .rms_norm import RmsNorm


class RmsNormConfig(ModuleConfig, tag="RmsNorm"):
    """x / sqrt(mean(x^2) + epsilon) * gamma over the last dimension (Zhang & Sennrich 2019).

    Attributes:
        d_model: size of the last dimension.
        epsilon: added to the mean square.
    """

    d_model: Size
    epsilon: Positive = 1e-5

    def init(self, device: "torch.device | str | None" = None) -> "RmsNorm":
        from .rms_norm import RmsNorm

        return RmsNorm(self, device)
