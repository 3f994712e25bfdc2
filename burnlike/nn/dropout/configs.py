"""The configs of dropout. Imports no torch."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import NotNegative

if TYPE_CHECKING:
    import torch

    from .drop_path import DropPath
    from .dropout import Dropout
    from .gaussian_noise import GaussianNoise


class DropoutConfig(ModuleConfig, tag="Dropout"):
    """Zero values at random in training (Srivastava et al. 2014).

    Attributes:
        prob: probability of zeroing a value; the others are scaled by 1 / (1 - prob).
    """

    prob: Annotated[float, Meta(ge=0, lt=1)]

    def init(self, device: "torch.device | str | None" = None) -> "Dropout":
        """Make the layer; it has no tensors, so `device` does not matter."""
        from .dropout import Dropout

        return Dropout(self)


class DropPathConfig(ModuleConfig, tag="DropPath"):
    """Zero items of the batch at random in training (stochastic depth, Huang et al. 2016).

    Attributes:
        prob: probability of zeroing an item; the others are scaled by 1 / (1 - prob).
    """

    prob: Annotated[float, Meta(ge=0, lt=1)]

    def init(self, device: "torch.device | str | None" = None) -> "DropPath":
        """Make the layer; it has no tensors, so `device` does not matter."""
        from .drop_path import DropPath

        return DropPath(self)


class GaussianNoiseConfig(ModuleConfig, tag="GaussianNoise"):
    """Add normal noise in training.

    Attributes:
        std: standard deviation of the noise.
    """

    std: NotNegative

    def init(self, device: "torch.device | str | None" = None) -> "GaussianNoise":
        """Make the layer; it has no tensors, so `device` does not matter."""
        from .gaussian_noise import GaussianNoise

        return GaussianNoise(self)
