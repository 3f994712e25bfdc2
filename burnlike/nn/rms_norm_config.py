"""Config of root mean square normalization."""

from typing import TYPE_CHECKING, Annotated

from ..config import Meta, ModuleConfig

if TYPE_CHECKING:
    import torch

    from .rms_norm import RmsNorm


class RmsNormConfig(ModuleConfig, tag="RmsNorm"):
    """x / sqrt(mean(x^2) + epsilon) * gamma over the last dimension (Zhang & Sennrich 2019).

    Attributes:
        d_model: size of the last dimension.
        epsilon: added to the mean square.
    """

    d_model: Annotated[int, Meta(ge=1)]
    epsilon: Annotated[float, Meta(gt=0)] = 1e-5

    def init(self, device: "torch.device | str | None" = None) -> "RmsNorm":
        """Make the layer on `device`."""
        from .rms_norm import RmsNorm

        return RmsNorm(self, device)
