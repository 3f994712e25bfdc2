"""The configs of activations. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Dimension, Finite, NotNegative, Size
from ..initializers.configs import Initializer, KaimingUniform
from ..roles import ActivationConfig
from .rectifier_configs import GeluConfig

if TYPE_CHECKING:
    from .gated import GLU, GatedLinear, SwiGlu
    from .rectifiers import PRelu, RRelu
    from .sigmoids import (
        HardShrink,
        HardSigmoid,
        Hardtanh,
        LogSigmoid,
        Shrink,
        Sigmoid,
        SoftShrink,
        Softsign,
        Tanh,
        Tanhshrink,
    )


class SigmoidConfig(ActivationConfig["Sigmoid"], tag="Sigmoid", builds=".sigmoids"):
    """1 / (1 + e^-x)."""


class LogSigmoidConfig(ActivationConfig["LogSigmoid"], tag="LogSigmoid", builds=".sigmoids"):
    """log(1 / (1 + e^-x))."""


class HardSigmoidConfig(ActivationConfig["HardSigmoid"], tag="HardSigmoid", builds=".sigmoids"):
    """alpha * x + beta, at least 0 and at most 1.

    Attributes:
        alpha: slope of the line; torch's is 1/6.
        beta: its value at 0.
    """

    alpha: Finite = 0.2
    beta: Finite = 0.5


class TanhConfig(ActivationConfig["Tanh"], tag="Tanh", builds=".sigmoids"):
    """The hyperbolic tangent."""


class HardtanhConfig(ActivationConfig["Hardtanh"], tag="Hardtanh", builds=".sigmoids"):
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


class SoftsignConfig(ActivationConfig["Softsign"], tag="Softsign", builds=".sigmoids"):
    """x / (1 + |x|)."""


class TanhshrinkConfig(ActivationConfig["Tanhshrink"], tag="Tanhshrink", builds=".sigmoids"):
    """x - tanh(x)."""


class HardShrinkConfig(ActivationConfig["HardShrink"], tag="HardShrink", builds=".sigmoids"):
    """x where |x| > lambd, 0 elsewhere.

    Attributes:
        lambd: what |x| has to exceed.
    """

    lambd: NotNegative = 0.5


class SoftShrinkConfig(ActivationConfig["SoftShrink"], tag="SoftShrink", builds=".sigmoids"):
    """x moved by lambd towards 0 where |x| > lambd, 0 elsewhere.

    Attributes:
        lambd: what |x| has to exceed.
    """

    lambd: NotNegative = 0.5


class ShrinkConfig(ActivationConfig["Shrink"], tag="Shrink", builds=".sigmoids"):
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere (ONNX).

    Attributes:
        lambd: what |x| has to exceed.
        bias: what is taken from |x|.
    """

    lambd: NotNegative = 0.5
    bias: Finite = 0.5


class PReluConfig(ActivationConfig["PRelu"], tag="PRelu", builds=".rectifiers"):
    """x where x >= 0, alpha * x elsewhere, alpha learned (He et al. 2015, eq. 1).

    Attributes:
        num_parameters: 1 for all channels, or one for each.
        alpha: the first value of the slopes.
    """

    num_parameters: Size = 1
    alpha: Finite = 0.25


class RReluConfig(ActivationConfig["RRelu"], tag="RRelu", builds=".rectifiers"):
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


class GLUConfig(ActivationConfig["GLU"], tag="GLU", builds=".gated"):
    """a * sigmoid(b), a and b the halves of x along a dimension (Dauphin et al. 2017, eq. 1).

    Attributes:
        dim: that is halved; negative ones count from the last.
    """

    dim: Dimension


class SwiGluConfig(ActivationConfig["SwiGlu"], tag="SwiGlu", builds=".gated"):
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


class GatedLinearConfig(ModuleConfig["GatedLinear"], tag="GatedLinear", builds=".gated"):
    """activation(linear_inner(x)) * linear_outer(x) (Shazeer 2020, eq. 5).

    Attributes:
        d_input: size of the last dimension of x.
        d_output: size of the last dimension of the result.
        activation: of the gate: GELU for GEGLU, SiLU for SwiGLU, ReLU for ReGLU.
        bias: whether both linear layers have a bias.
        initializer: of both linear layers.
    """

    d_input: Size
    d_output: Size
    activation: ActivationConfig = GeluConfig()
    bias: bool = False
    initializer: Initializer = KaimingUniform()
