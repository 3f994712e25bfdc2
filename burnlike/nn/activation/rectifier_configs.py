"""The configs of rectifiers and what is made of them. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config.bounds import Finite
from ..roles import ActivationConfig

if TYPE_CHECKING:
    import torch

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


class ReluConfig(ActivationConfig, tag="Relu"):
    """max(0, x)."""

    def init(self, device: "torch.device | str | None" = None) -> "Relu":
        from .rectifiers import Relu

        return Relu()


class Relu6Config(ActivationConfig, tag="Relu6"):
    """min(max(0, x), 6)."""

    def init(self, device: "torch.device | str | None" = None) -> "Relu6":
        from .rectifiers import Relu6

        return Relu6()


class LeakyReluConfig(ActivationConfig, tag="LeakyRelu"):
    """x where x >= 0, negative_slope * x elsewhere (Maas et al. 2013).

    Attributes:
        negative_slope: of the line below 0.
    """

    negative_slope: Finite = 0.01

    def init(self, device: "torch.device | str | None" = None) -> "LeakyRelu":
        from .rectifiers import LeakyRelu

        return LeakyRelu(self)


class ThresholdedReluConfig(ActivationConfig, tag="ThresholdedRelu"):
    """x where x > alpha, 0 elsewhere.

    Attributes:
        alpha: what x has to exceed.
    """

    alpha: Finite = 1.0

    def init(self, device: "torch.device | str | None" = None) -> "ThresholdedRelu":
        from .rectifiers import ThresholdedRelu

        return ThresholdedRelu(self)


class ThresholdConfig(ActivationConfig, tag="Threshold"):
    """x where x > threshold, value elsewhere.

    Attributes:
        threshold: what x has to exceed.
        value: the result elsewhere.
    """

    threshold: Finite
    value: Finite

    def init(self, device: "torch.device | str | None" = None) -> "Threshold":
        from .rectifiers import Threshold

        return Threshold(self)


class EluConfig(ActivationConfig, tag="Elu"):
    """x where x > 0, alpha * (e^x - 1) elsewhere (Clevert et al. 2016, eq. 15).

    Attributes:
        alpha: minus the limit for small x.
    """

    alpha: Finite = 1.0

    def init(self, device: "torch.device | str | None" = None) -> "Elu":
        from .rectifiers import Elu

        return Elu(self)


class SeluConfig(ActivationConfig, tag="Selu"):
    """ELU with a scale and an alpha that keep mean 0 and variance 1 (Klambauer et al. 2017, eq. 2)."""

    def init(self, device: "torch.device | str | None" = None) -> "Selu":
        from .rectifiers import Selu

        return Selu()


class CeluConfig(ActivationConfig, tag="Celu"):
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1)) (Barron 2017, eq. 2).

    Attributes:
        alpha: minus the limit for small x; not 0.
    """

    alpha: Finite = 1.0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.alpha == 0:
            yield "alpha", "expected a number other than 0: x is divided by it"

    def init(self, device: "torch.device | str | None" = None) -> "Celu":
        from .rectifiers import Celu

        return Celu(self)


class SoftplusConfig(ActivationConfig, tag="Softplus"):
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

    def init(self, device: "torch.device | str | None" = None) -> "Softplus":
        from .rectifiers import Softplus

        return Softplus(self)


class GeluConfig(ActivationConfig, tag="Gelu"):
    """x * Phi(x), Phi the distribution function of the normal distribution (Hendrycks & Gimpel 2016).

    Attributes:
        approximate: whether Phi is approximated by tanh.
    """

    approximate: bool = False

    def init(self, device: "torch.device | str | None" = None) -> "Gelu":
        from .rectifiers import Gelu

        return Gelu(self)


class SiLUConfig(ActivationConfig, tag="SiLU"):
    """x * sigmoid(x) (Elfwing et al. 2018, eq. 2)."""

    def init(self, device: "torch.device | str | None" = None) -> "SiLU":
        from .rectifiers import SiLU

        return SiLU()


class MishConfig(ActivationConfig, tag="Mish"):
    """x * tanh(softplus(x)) (Misra 2020, eq. 1)."""

    def init(self, device: "torch.device | str | None" = None) -> "Mish":
        from .rectifiers import Mish

        return Mish()


class HardSwishConfig(ActivationConfig, tag="HardSwish"):
    """x * min(max(0, x + 3), 6) / 6 (Howard et al. 2019)."""

    def init(self, device: "torch.device | str | None" = None) -> "HardSwish":
        from .rectifiers import HardSwish

        return HardSwish()
