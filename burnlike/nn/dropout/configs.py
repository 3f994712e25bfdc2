"""The configs of dropout. Imports no torch."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import NotNegative

if TYPE_CHECKING:
    from . import dropout


class DropoutConfig(ModuleConfig["dropout.Dropout"], tag="Dropout"):
    """Zero values with the probability prob in training, scale the rest by 1 / (1 - prob) (Srivastava et al. 2014)."""

    prob: Annotated[float, Meta(ge=0, lt=1)]


class DropPathConfig(ModuleConfig["dropout.DropPath"], tag="DropPath"):
    """Zero each item of the batch with the probability prob in training, scale the rest (Huang et al. 2016)."""

    prob: Annotated[float, Meta(ge=0, lt=1)]


class GaussianNoiseConfig(ModuleConfig["dropout.GaussianNoise"], tag="GaussianNoise"):
    """Add noise of N(0, std^2) in training."""

    std: NotNegative
