"""The configs of rectifiers and what is made of them. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config.bounds import Finite
from ..roles import ActivationConfig

if TYPE_CHECKING:
    from . import rectifiers


class ReluConfig(ActivationConfig["rectifiers.Relu"], tag="Relu"):
    """max(0, x)."""


class Relu6Config(ActivationConfig["rectifiers.Relu6"], tag="Relu6"):
    """min(max(0, x), 6)."""


class LeakyReluConfig(ActivationConfig["rectifiers.LeakyRelu"], tag="LeakyRelu"):
    """x where x >= 0, negative_slope * x elsewhere (Maas et al. 2013).

    Attributes:
        negative_slope: of the line below 0.
    """

    negative_slope: Finite = 0.01


class ThresholdedReluConfig(ActivationConfig["rectifiers.ThresholdedRelu"], tag="ThresholdedRelu"):
    """x where x > alpha, 0 elsewhere.

    Attributes:
        alpha: what x has to exceed.
    """

    alpha: Finite = 1.0


class ThresholdConfig(ActivationConfig["rectifiers.Threshold"], tag="Threshold"):
    """x where x > threshold, value elsewhere.

    Attributes:
        threshold: what x has to exceed.
        value: the result elsewhere.
    """

    threshold: Finite
    value: Finite


class EluConfig(ActivationConfig["rectifiers.Elu"], tag="Elu"):
    """x where x > 0, alpha * (e^x - 1) elsewhere (Clevert et al. 2016, eq. 15).

    Attributes:
        alpha: minus the limit for small x.
    """

    alpha: Finite = 1.0


class SeluConfig(ActivationConfig["rectifiers.Selu"], tag="Selu"):
    """ELU with a scale and an alpha that keep mean 0 and variance 1 (Klambauer et al. 2017, eq. 2)."""


class CeluConfig(ActivationConfig["rectifiers.Celu"], tag="Celu"):
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1)) (Barron 2017, eq. 2).

    Attributes:
        alpha: minus the limit for small x; not 0.
    """

    alpha: Finite = 1.0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.alpha == 0:
            yield "alpha", "expected a number other than 0: x is divided by it"


class SoftplusConfig(ActivationConfig["rectifiers.Softplus"], tag="Softplus"):
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


class GeluConfig(ActivationConfig["rectifiers.Gelu"], tag="Gelu"):
    """x * Phi(x), Phi the distribution function of the normal distribution (Hendrycks & Gimpel 2016).

    Attributes:
        approximate: whether Phi is approximated by tanh.
    """

    approximate: bool = False


class SiLUConfig(ActivationConfig["rectifiers.SiLU"], tag="SiLU"):
    """x * sigmoid(x) (Elfwing et al. 2018, eq. 2)."""


class MishConfig(ActivationConfig["rectifiers.Mish"], tag="Mish"):
    """x * tanh(softplus(x)) (Misra 2020, eq. 1)."""


class HardSwishConfig(ActivationConfig["rectifiers.HardSwish"], tag="HardSwish"):
    """x * min(max(0, x + 3), 6) / 6 (Howard et al. 2019)."""
