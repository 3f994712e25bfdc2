"""The configs of activations. Imports no torch.

They are in the order of the variants of Burn 0.21's enum `Activation`, whose bincode has the number of a variant; those
that it lacks come after, in the order in which they were added. A new one comes last.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from ...config import ModuleConfig
from ...config.bounds import Dimension, Finite, NotNegative, Size
from ..initializers.configs import Initializer, KaimingUniform
from ..roles import ActivationConfig, LayerFacts, NormalizationConfig

if TYPE_CHECKING:
    from ..linear import Identity
    from . import activation, elementwise


class GeluConfig(ActivationConfig["elementwise.Gelu"], tag="Gelu"):
    """x * Phi(x), Phi the distribution function of the normal distribution (Hendrycks & Gimpel 2016).

    Attributes:
        approximate: whether Phi is approximated by tanh.
    """

    approximate: bool = False


class PReluConfig(ActivationConfig["elementwise.PRelu"], tag="PRelu"):
    """x where x >= 0, alpha * x elsewhere, alpha learned (He et al. 2015, eq. 1).

    Attributes:
        num_parameters: 1 for all channels, or one for each.
        alpha: the first value of the slopes.
    """

    num_parameters: Size = 1
    alpha: Finite = 0.25


class ReluConfig(ActivationConfig["elementwise.Relu"], tag="Relu"):
    """max(0, x)."""


class LeakyReluConfig(ActivationConfig["elementwise.LeakyRelu"], tag="LeakyRelu"):
    """x where x >= 0, negative_slope * x elsewhere (Maas et al. 2013)."""

    negative_slope: Finite = 0.01


class SwiGluConfig(ActivationConfig["activation.SwiGlu"], tag="SwiGlu"):
    """silu(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5).

    Attributes:
        d_input: size of the last dimension of x.
        d_output: size of the last dimension of the result.
        bias: whether both linear layers have a bias.
        initializer: of both linear layers.
    """

    facts = LayerFacts(last=("d_input", "d_output"), divides_sequences=True)

    d_input: Size
    d_output: Size
    bias: bool = False
    initializer: Initializer = KaimingUniform()


class SeluConfig(ActivationConfig["elementwise.Selu"], tag="Selu"):
    """ELU with a scale and an alpha that keep mean 0 and variance 1 (Klambauer et al. 2017, eq. 2)."""


class SigmoidConfig(ActivationConfig["elementwise.Sigmoid"], tag="Sigmoid"):
    """1 / (1 + e^-x)."""


class TanhConfig(ActivationConfig["elementwise.Tanh"], tag="Tanh"):
    """The hyperbolic tangent."""


class HardSigmoidConfig(ActivationConfig["elementwise.HardSigmoid"], tag="HardSigmoid"):
    """alpha * x + beta, at least 0 and at most 1.

    Attributes:
        alpha: slope of the line; torch's is 1/6.
        beta: its value at 0.
    """

    alpha: Finite = 0.2
    beta: Finite = 0.5


class HardSwishConfig(ActivationConfig["elementwise.HardSwish"], tag="HardSwish"):
    """x * min(max(0, x + 3), 6) / 6 (Howard et al. 2019)."""


class SoftplusConfig(ActivationConfig["elementwise.Softplus"], tag="Softplus"):
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


class SoftsignConfig(ActivationConfig["elementwise.Softsign"], tag="Softsign"):
    """x / (1 + |x|)."""


class EluConfig(ActivationConfig["elementwise.Elu"], tag="Elu"):
    """x where x > 0, alpha * (e^x - 1) elsewhere (Clevert et al. 2016, eq. 15)."""

    alpha: Finite = 1.0


class CeluConfig(ActivationConfig["elementwise.Celu"], tag="Celu"):
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1)), alpha not 0 (Barron 2017, eq. 2)."""

    alpha: Finite = 1.0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.alpha == 0:
            yield "alpha", "expected a number other than 0: x is divided by it"


class ThresholdedReluConfig(ActivationConfig["elementwise.ThresholdedRelu"], tag="ThresholdedRelu"):
    """x where x > alpha, 0 elsewhere."""

    alpha: Finite = 1.0


class HardShrinkConfig(ActivationConfig["elementwise.HardShrink"], tag="HardShrink"):
    """x where |x| > lambd, 0 elsewhere."""

    lambd: NotNegative = 0.5


class SoftShrinkConfig(ActivationConfig["elementwise.SoftShrink"], tag="SoftShrink"):
    """x moved by lambd towards 0 where |x| > lambd, 0 elsewhere."""

    lambd: NotNegative = 0.5


class ShrinkConfig(ActivationConfig["elementwise.Shrink"], tag="Shrink"):
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere (ONNX)."""

    lambd: NotNegative = 0.5
    bias: Finite = 0.5


class IdentityConfig(ActivationConfig["Identity"], NormalizationConfig["Identity"], tag="Identity", builds="..linear"):
    """y = x, in place of a layer that is left out."""

    @property
    def num_features(self) -> int:
        return 0

    def with_num_features(self, num_features: int) -> Self:
        return self


class LogSigmoidConfig(ActivationConfig["elementwise.LogSigmoid"], tag="LogSigmoid"):
    """log(1 / (1 + e^-x))."""


class HardtanhConfig(ActivationConfig["elementwise.Hardtanh"], tag="Hardtanh"):
    """x, at least min_val and at most max_val."""

    min_val: Finite = -1.0
    max_val: Finite = 1.0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.min_val > self.max_val:
            yield "min_val", f"expected at most max_val ({self.max_val}), got {self.min_val}"


class TanhshrinkConfig(ActivationConfig["elementwise.Tanhshrink"], tag="Tanhshrink"):
    """x - tanh(x)."""


class MishConfig(ActivationConfig["elementwise.Mish"], tag="Mish"):
    """x * tanh(softplus(x)) (Misra 2020, eq. 1)."""


class SiLUConfig(ActivationConfig["elementwise.SiLU"], tag="SiLU"):
    """x * sigmoid(x) (Elfwing et al. 2018, eq. 2)."""


class Relu6Config(ActivationConfig["elementwise.Relu6"], tag="Relu6"):
    """min(max(0, x), 6)."""


class RReluConfig(ActivationConfig["elementwise.RRelu"], tag="RRelu"):
    """x where x >= 0, elsewhere x times a slope in lower..upper, random in training (Xu et al. 2015, eq. 3)."""

    lower: Finite = 1 / 8
    upper: Finite = 1 / 3

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.lower > self.upper:
            yield "lower", f"expected at most upper ({self.upper}), got {self.lower}"


class ThresholdConfig(ActivationConfig["elementwise.Threshold"], tag="Threshold"):
    """x where x > threshold, value elsewhere."""

    threshold: Finite
    value: Finite


class GLUConfig(ActivationConfig["activation.GLU"], tag="GLU"):
    """a * sigmoid(b), a and b the halves of x along dim, which may be negative (Dauphin et al. 2017, eq. 1)."""

    facts = LayerFacts(divides_sequences=True)

    dim: Dimension


class GatedLinearConfig(ModuleConfig["activation.GatedLinear"], tag="GatedLinear"):
    """activation(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5).

    Attributes:
        d_input: size of the last dimension of x.
        d_output: size of the last dimension of the result.
        activation: of the gate: GELU for GEGLU, SiLU for SwiGLU, ReLU for ReGLU.
        bias: whether both linear layers have a bias.
        initializer: of both linear layers.
    """

    facts = LayerFacts(last=("d_input", "d_output"), divides_sequences=True)

    d_input: Size
    d_output: Size
    activation: ActivationConfig = GeluConfig()
    bias: bool = False
    initializer: Initializer = KaimingUniform()
