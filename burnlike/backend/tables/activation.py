"""Activation functions."""

# pyright: reportReturnType=false

from typing import Protocol

from torch import Tensor


class ActivationOps(Protocol):
    """Activation functions, on Float tensors; the result has the input's shape."""

    def relu(self, tensor: Tensor, /) -> Tensor:
        """max(x, 0); NaN stays."""

    def gelu(self, tensor: Tensor, /) -> Tensor:
        """x * (1 + erf(x / sqrt(2))) / 2."""

    def gelu_approximate(self, tensor: Tensor, /) -> Tensor:
        """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""

    def sigmoid(self, tensor: Tensor, /) -> Tensor:
        """1 / (1 + e^-x)."""

    def log_sigmoid(self, tensor: Tensor, /) -> Tensor:
        """log(sigmoid(x)), without overflow."""

    def silu(self, tensor: Tensor, /) -> Tensor:
        """x * sigmoid(x)."""

    def hard_swish(self, tensor: Tensor, /) -> Tensor:
        """x * clamp(x / 6 + 0.5, 0, 1)."""

    def mish(self, tensor: Tensor, /) -> Tensor:
        """x * tanh(log(1 + e^x))."""

    def selu(self, tensor: Tensor, /) -> Tensor:
        """1.0507009873554805 * elu(x, 1.6732632423543772)."""

    def softsign(self, tensor: Tensor, /) -> Tensor:
        """x / (1 + |x|)."""

    def tanhshrink(self, tensor: Tensor, /) -> Tensor:
        """x - tanh(x)."""

    def leaky_relu(self, tensor: Tensor, negative_slope: float, /) -> Tensor:
        """x where x >= 0, negative_slope * x elsewhere."""

    def hard_sigmoid(self, tensor: Tensor, alpha: float, beta: float, /) -> Tensor:
        """clamp(alpha * x + beta, 0, 1)."""

    def softplus(self, tensor: Tensor, beta: float, threshold: float, /) -> Tensor:
        """log(1 + e^(beta * x)) / beta, and x where beta * x > threshold."""

    def elu(self, tensor: Tensor, alpha: float, /) -> Tensor:
        """x where x > 0, alpha * (e^x - 1) elsewhere."""

    def celu(self, tensor: Tensor, alpha: float, /) -> Tensor:
        """max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))."""

    def threshold(self, tensor: Tensor, threshold: float, value: float, /) -> Tensor:
        """x where x > threshold, `value` elsewhere."""

    def hard_shrink(self, tensor: Tensor, lambd: float, /) -> Tensor:
        """x where |x| > lambd, 0 elsewhere."""

    def shrink(self, tensor: Tensor, lambd: float, bias: float, /) -> Tensor:
        """x - sign(x) * bias where |x| > lambd, 0 elsewhere."""

    def soft_shrink(self, tensor: Tensor, lambd: float, /) -> Tensor:
        """x - sign(x) * lambd where |x| > lambd, 0 elsewhere."""

    def hardtanh(self, tensor: Tensor, minimum: float, maximum: float, /) -> Tensor:
        """x, at least `minimum` and at most `maximum`."""

    def prelu(self, tensor: Tensor, alpha: Tensor, /) -> Tensor:
        """x where x >= 0, alpha * x elsewhere; alpha `[1]`, or one per channel of `[batch, channels, ..]`."""

    def softmax(self, tensor: Tensor, dim: int, /) -> Tensor:
        """e^x / sum(e^x) along a dimension."""

    def softmin(self, tensor: Tensor, dim: int, /) -> Tensor:
        """softmax(-x) along a dimension."""

    def log_softmax(self, tensor: Tensor, dim: int, /) -> Tensor:
        """log(softmax(x)) along a dimension."""

    def quiet_softmax(self, tensor: Tensor, dim: int, /) -> Tensor:
        """e^x / (1 + sum(e^x)) along a dimension."""

    def glu(self, tensor: Tensor, dim: int, /) -> Tensor:
        """The first half along a dimension times the sigmoid of the second half: that dimension is halved."""
