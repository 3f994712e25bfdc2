"""The configs of normalizations. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar

from ...config import Meta, ModuleConfig
from ...config.bounds import Finite, NotNegative, Positive, Size
from ..roles import LayerFacts, NormalizationConfig

if TYPE_CHECKING:
    from . import norm


class BatchNormConfig(NormalizationConfig["norm.BatchNorm"], tag="BatchNorm"):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (Ioffe & Szegedy 2015).

    Attributes:
        num_features: channels, dimension 1 of x.
        momentum: weight of a batch in the running mean and variance.
    """

    facts = LayerFacts(channels=("num_features", "num_features"))

    features: ClassVar[str] = "num_features"

    num_features: Size  # pyright: ignore[reportIncompatibleMethodOverride]
    epsilon: Positive = 1e-5
    momentum: Annotated[float, Meta(ge=0, le=1)] = 0.1


class LayerNormConfig(NormalizationConfig["norm.LayerNorm"], tag="LayerNorm"):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last dimension (Ba et al. 2016).

    Attributes:
        bias: whether beta is added.
    """

    facts = LayerFacts(last=("d_model", "d_model"), divides_sequences=True)

    features: ClassVar[str] = "d_model"

    d_model: Size
    epsilon: NotNegative = 1e-5
    bias: bool = True


class GroupNormConfig(NormalizationConfig["norm.GroupNorm"], tag="GroupNorm"):
    """(x - mean) / sqrt(variance + epsilon) over groups of channels, then * gamma + beta (Wu & He 2018).

    Attributes:
        num_groups: groups; must divide num_channels.
    """

    facts = LayerFacts(channels=("num_channels", "num_channels"))

    features: ClassVar[str] = "num_channels"

    num_groups: Size
    num_channels: Size
    epsilon: NotNegative = 1e-5
    affine: bool = True

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.num_channels % self.num_groups:
            yield "num_groups", f"expected a divisor of num_channels ({self.num_channels}), got {self.num_groups}"


class InstanceNormConfig(NormalizationConfig["norm.InstanceNorm"], tag="InstanceNorm"):
    """(x - mean) / sqrt(variance + epsilon) for each item and channel, then * gamma + beta (Ulyanov et al. 2016)."""

    facts = LayerFacts(channels=("num_channels", "num_channels"))

    features: ClassVar[str] = "num_channels"

    num_channels: Size
    epsilon: NotNegative = 1e-5
    affine: bool = True


class RmsNormConfig(NormalizationConfig["norm.RmsNorm"], tag="RmsNorm"):
    """x / sqrt(mean(x^2) + epsilon) * gamma over the last dimension (Zhang & Sennrich 2019)."""

    facts = LayerFacts(last=("d_model", "d_model"), divides_sequences=True)

    features: ClassVar[str] = "d_model"

    d_model: Size
    epsilon: Positive = 1e-5


class LocalResponseNormConfig(ModuleConfig["norm.LocalResponseNorm"], tag="LocalResponseNorm"):
    """x / (k + alpha / size * sum(x^2))^beta over neighbouring channels (Krizhevsky et al. 2012, section 3.3).

    Attributes:
        size: channels of a window: (size - 1) // 2 before the channel, size // 2 behind it, and itself.
        alpha: factor of the mean square.
        beta: exponent.
        k: added to the mean square.
    """

    facts = LayerFacts(keeps="all")

    size: Size
    alpha: Finite = 1e-4
    beta: Finite = 0.75
    k: Finite = 1.0
