"""The configs of activations. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config.bounds import Dimension, Finite, NotNegative, Size
from ..initializers.configs import Initializer, KaimingUniform
from ..roles import ActivationConfig

if TYPE_CHECKING:
    import torch

    from .glu import GLU
    from .prelu import PRelu
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
    from .rrelu import RRelu
    from .shrinks import HardShrink, Shrink, SoftShrink, Tanhshrink
    from .sigmoids import HardSigmoid, Hardtanh, LogSigmoid, Sigmoid, Softsign, Tanh
    from .swiglu import SwiGlu


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


class SigmoidConfig(ActivationConfig, tag="Sigmoid"):
    """1 / (1 + e^-x)."""

    def init(self, device: "torch.device | str | None" = None) -> "Sigmoid":
        from .sigmoids import Sigmoid

        return Sigmoid()


class LogSigmoidConfig(ActivationConfig, tag="LogSigmoid"):
    """log(1 / (1 + e^-x))."""

    def init(self, device: "torch.device | str | None" = None) -> "LogSigmoid":
        from .sigmoids import LogSigmoid

        return LogSigmoid()


class HardSigmoidConfig(ActivationConfig, tag="HardSigmoid"):
    """alpha * x + beta, at least 0 and at most 1.

    Attributes:
        alpha: slope of the line; torch's is 1/6.
        beta: its value at 0.
    """

    alpha: Finite = 0.2
    beta: Finite = 0.5

    def init(self, device: "torch.device | str | None" = None) -> "HardSigmoid":
        from .sigmoids import HardSigmoid

        return HardSigmoid(self)


class TanhConfig(ActivationConfig, tag="Tanh"):
    """The hyperbolic tangent."""

    def init(self, device: "torch.device | str | None" = None) -> "Tanh":
        from .sigmoids import Tanh

        return Tanh()


class HardtanhConfig(ActivationConfig, tag="Hardtanh"):
    """x, at least min_val and at most max_val.

    Attributes:
        min_val: the smallest result.
        max_val: the largest result.
    """

    min_val: Finite = -1.0
    max_val: Finite = 1.0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.min_val > self.max_val:
            yield "min_val", f"expected at most max_val ({self.max_val}), got {self.min_val}"

    def init(self, device: "torch.device | str | None" = None) -> "Hardtanh":
        from .sigmoids import Hardtanh

        return Hardtanh(self)


class SoftsignConfig(ActivationConfig, tag="Softsign"):
    """x / (1 + |x|)."""

    def init(self, device: "torch.device | str | None" = None) -> "Softsign":
        from .sigmoids import Softsign

        return Softsign()


class TanhshrinkConfig(ActivationConfig, tag="Tanhshrink"):
    """x - tanh(x)."""

    def init(self, device: "torch.device | str | None" = None) -> "Tanhshrink":
        from .shrinks import Tanhshrink

        return Tanhshrink()


class HardShrinkConfig(ActivationConfig, tag="HardShrink"):
    """x where |x| > lambd, 0 elsewhere.

    Attributes:
        lambd: what |x| has to exceed.
    """

    lambd: NotNegative = 0.5

    def init(self, device: "torch.device | str | None" = None) -> "HardShrink":
        from .shrinks import HardShrink

        return HardShrink(self)


class SoftShrinkConfig(ActivationConfig, tag="SoftShrink"):
    """x moved by lambd towards 0 where |x| > lambd, 0 elsewhere.

    Attributes:
        lambd: what |x| has to exceed.
    """

    lambd: NotNegative = 0.5

    def init(self, device: "torch.device | str | None" = None) -> "SoftShrink":
        from .shrinks import SoftShrink

        return SoftShrink(self)


class ShrinkConfig(ActivationConfig, tag="Shrink"):
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere (ONNX).

    Attributes:
        lambd: what |x| has to exceed.
        bias: what is taken from |x|.
    """

    lambd: NotNegative = 0.5
    bias: Finite = 0.5

    def init(self, device: "torch.device | str | None" = None) -> "Shrink":
        from .shrinks import Shrink

        return Shrink(self)


class PReluConfig(ActivationConfig, tag="PRelu"):
    """x where x >= 0, alpha * x elsewhere, alpha learned (He et al. 2015, eq. 1).

    Attributes:
        num_parameters: 1 for all channels, or one for each.
        alpha: the first value of the slopes.
    """

    num_parameters: Size = 1
    alpha: Finite = 0.25

    def init(self, device: "torch.device | str | None" = None) -> "PRelu":
        from .prelu import PRelu

        return PRelu(self, device)


class RReluConfig(ActivationConfig, tag="RRelu"):
    """x where x >= 0, a slope that is random in training times x elsewhere (Xu et al. 2015, eq. 3).

    Attributes:
        lower: the smallest slope.
        upper: the largest slope.
    """

    lower: Finite = 1 / 8
    upper: Finite = 1 / 3

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.lower > self.upper:
            yield "lower", f"expected at most upper ({self.upper}), got {self.lower}"

    def init(self, device: "torch.device | str | None" = None) -> "RRelu":
        from .rrelu import RRelu

        return RRelu(self)


class GLUConfig(ActivationConfig, tag="GLU"):
    """a * sigmoid(b), a and b the halves of x along a dimension (Dauphin et al. 2017, eq. 1).

    Attributes:
        dim: that is halved; negative ones count from the last.
    """

    dim: Dimension

    def init(self, device: "torch.device | str | None" = None) -> "GLU":
        from .glu import GLU

        return GLU(self)


class SwiGluConfig(ActivationConfig, tag="SwiGlu"):
    """silu(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5).

    Attributes:
        d_input: size of the last dimension of x.
        d_output: size of the last dimension of the result.
        bias: whether both linear layers have a bias.
        initializer: of both linear layers.
    """

    d_input: Size
    d_output: Size
    bias: bool = False
    initializer: Initializer = KaimingUniform()

    def init(self, device: "torch.device | str | None" = None) -> "SwiGlu":
        from .swiglu import SwiGlu

        return SwiGlu(self, device)
