"""The configs of rectifiers and what is made of them. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config.bounds import Finite
from ..roles import ActivationConfig

if TYPE_CHECKING:
    from .rectifiers import (
        Celu,
        Elu,
        Gelu,
        HardSwish,
        LeakyRelu,
        Mish,
        Relu,
        Relu6,
        Selu,
        SiLU,
        Softplus,
        Threshold,
        ThresholdedRelu,
    )


class ReluConfig(ActivationConfig["Relu"], tag="Relu", builds=".rectifiers"):
    """max(0, x)."""


class Relu6Config(ActivationConfig["Relu6"], tag="Relu6", builds=".rectifiers"):
    """min(max(0, x), 6)."""


class LeakyReluConfig(ActivationConfig["LeakyRelu"], tag="LeakyRelu", builds=".rectifiers"):
    """x where x >= 0, negative_slope * x elsewhere (Maas et al. 2013).

    Attributes:
        negative_slope: of the line below 0.
    """

    negative_slope: Finite = 0.01


class ThresholdedReluConfig(ActivationConfig["ThresholdedRelu"], tag="ThresholdedRelu", builds=".rectifiers"):
    """x where x > alpha, 0 elsewhere.

    Attributes:
        alpha: what x has to exceed.
    """

    alpha: Finite = 1.0


class ThresholdConfig(ActivationConfig["Threshold"], tag="Threshold", builds=".rectifiers"):
    """x where x > threshold, value elsewhere.

    Attributes:
        threshold: what x has to exceed.
        value: the result elsewhere.
    """

    threshold: Finite
    value: Finite


class EluConfig(ActivationConfig["Elu"], tag="Elu", builds=".rectifiers"):
    """x where x > 0, alpha * (e^x - 1) elsewhere (Clevert et al. 2016, eq. 15).

    Attributes:
        alpha: minus the limit for small x.
    """

    alpha: Finite = 1.0


class SeluConfig(ActivationConfig["Selu"], tag="Selu", builds=".rectifiers"):
    """ELU with a scale and an alpha that keep mean 0 and variance 1 (Klambauer et al. 2017, eq. 2)."""


class CeluConfig(ActivationConfig["Celu"], tag="Celu", builds=".rectifiers"):
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1)) (Barron 2017, eq. 2).

    Attributes:
        alpha: minus the limit for small x; not 0.
    """

    alpha: Finite = 1.0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.alpha == 0:
            yield "alpha", "expected a number other than 0: x is divided by it"


class SoftplusConfig(ActivationConfig["Softplus"], tag="Softplus", builds=".rectifiers"):
    """log(1 + e^(beta * x)) / beta, and x itself where beta * x > threshold (Dugas et al. 2001).

    Attributes:
        beta: sharpness of the bend; not 0.
        threshold: from where on x itself is taken; lowered to what e^x can be computed of in x's dtype.
    """

    beta: Finite = 1.0
    threshold: Finite = 20.0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.beta == 0:
            yield "beta", "expected a number other than 0: it is divided by"


class GeluConfig(ActivationConfig["Gelu"], tag="Gelu", builds=".rectifiers"):
    """x * Phi(x), Phi the distribution function of the normal distribution (Hendrycks & Gimpel 2016).

    Attributes:
        approximate: whether Phi is approximated by tanh.
    """

    approximate: bool = False


class SiLUConfig(ActivationConfig["SiLU"], tag="SiLU", builds=".rectifiers"):
    """x * sigmoid(x) (Elfwing et al. 2018, eq. 2)."""


class MishConfig(ActivationConfig["Mish"], tag="Mish", builds=".rectifiers"):
    """x * tanh(softplus(x)) (Misra 2020, eq. 1)."""


class HardSwishConfig(ActivationConfig["HardSwish"], tag="HardSwish", builds=".rectifiers"):
    """x * min(max(0, x + 3), 6) / 6 (Howard et al. 2019)."""
