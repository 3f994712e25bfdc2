"""The configs of dropout. Imports no torch."""

from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import NotNegative

if TYPE_CHECKING:
    from . import dropout


class DropoutConfig(ModuleConfig["dropout.Dropout"], tag="Dropout"):
    """Zero values at random in training (Srivastava et al. 2014).

    Attributes:
        prob: probability of zeroing a value; the others are scaled by 1 / (1 - prob).
    """

    prob: Annotated[float, Meta(ge=0, lt=1)]


class DropPathConfig(ModuleConfig["dropout.DropPath"], tag="DropPath"):
    """Zero items of the batch at random in training (stochastic depth, Huang et al. 2016).

    Attributes:
        prob: probability of zeroing an item; the others are scaled by 1 / (1 - prob).
    """

    prob: Annotated[float, Meta(ge=0, lt=1)]


class GaussianNoiseConfig(ModuleConfig["dropout.GaussianNoise"], tag="GaussianNoise"):
    """Add normal noise in training.

    Attributes:
        std: standard deviation of the noise.
    """

    std: NotNegative
