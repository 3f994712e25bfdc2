"""The configs of activations. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Dimension, Finite, NotNegative, Size
from ..initializers.configs import Initializer, KaimingUniform
from ..roles import ActivationConfig
from .rectifier_configs import GeluConfig

if TYPE_CHECKING:
    import torch

    from .gated_linear import GatedLinear
    from .glu import GLU
    from .prelu import PRelu
    from .rrelu import RRelu
    from .shrinks import HardShrink, Shrink, SoftShrink, Tanhshrink
    from .sigmoids import HardSigmoid, Hardtanh, LogSigmoid, Sigmoid, Softsign, Tanh
    from .swiglu import SwiGlu


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


class GatedLinearConfig(ModuleConfig, tag="GatedLinear"):
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

    def init(self, device: "torch.device | str | None" = None) -> "GatedLinear":
        from .gated_linear import GatedLinear

        return GatedLinear(self, device)
