"""Activation functions."""

from typing import Protocol

from torch import Tensor


class ActivationOps(Protocol):
    """Activation functions, on Float tensors; the result has the input's shape."""

    @staticmethod
    def relu(tensor: Tensor, /) -> Tensor:
        """max(x, 0); NaN stays."""
        ...

    @staticmethod
    def gelu(tensor: Tensor, /) -> Tensor:
        """x * (1 + erf(x / sqrt(2))) / 2."""
        ...

    @staticmethod
    def gelu_approximate(tensor: Tensor, /) -> Tensor:
        """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
        ...

    @staticmethod
    def sigmoid(tensor: Tensor, /) -> Tensor:
        """1 / (1 + e^-x)."""
        ...

    @staticmethod
    def log_sigmoid(tensor: Tensor, /) -> Tensor:
        """log(sigmoid(x)), without overflow."""
        ...

    @staticmethod
    def silu(tensor: Tensor, /) -> Tensor:
        """x * sigmoid(x)."""
        ...

    @staticmethod
    def hard_swish(tensor: Tensor, /) -> Tensor:
        """x * clamp(x / 6 + 0.5, 0, 1)."""
        ...

    @staticmethod
    def mish(tensor: Tensor, /) -> Tensor:
        """x * tanh(log(1 + e^x))."""
        ...

    @staticmethod
    def selu(tensor: Tensor, /) -> Tensor:
        """1.0507009873554805 * elu(x, 1.6732632423543772)."""
        ...

    @staticmethod
    def softsign(tensor: Tensor, /) -> Tensor:
        """x / (1 + |x|)."""
        ...

    @staticmethod
    def tanhshrink(tensor: Tensor, /) -> Tensor:
        """x - tanh(x)."""
        ...

    @staticmethod
    def leaky_relu(tensor: Tensor, negative_slope: float, /) -> Tensor:
        """x where x >= 0, negative_slope * x elsewhere."""
        ...

    @staticmethod
    def hard_sigmoid(tensor: Tensor, alpha: float, beta: float, /) -> Tensor:
        """clamp(alpha * x + beta, 0, 1)."""
        ...

    @staticmethod
    def softplus(tensor: Tensor, beta: float, threshold: float, /) -> Tensor:
        """log(1 + e^(beta * x)) / beta, and x where beta * x > threshold."""
        ...

    @staticmethod
    def elu(tensor: Tensor, alpha: float, /) -> Tensor:
        """x where x > 0, alpha * (e^x - 1) elsewhere."""
        ...

    @staticmethod
    def celu(tensor: Tensor, alpha: float, /) -> Tensor:
        """max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))."""
        ...

    @staticmethod
    def threshold(tensor: Tensor, threshold: float, value: float, /) -> Tensor:
        """x where x > threshold, `value` elsewhere."""
        ...

    @staticmethod
    def hard_shrink(tensor: Tensor, lambd: float, /) -> Tensor:
        """x where |x| > lambd, 0 elsewhere."""
        ...

    @staticmethod
    def shrink(tensor: Tensor, lambd: float, bias: float, /) -> Tensor:
        """x - sign(x) * bias where |x| > lambd, 0 elsewhere."""
        ...

    @staticmethod
    def soft_shrink(tensor: Tensor, lambd: float, /) -> Tensor:
        """x - sign(x) * lambd where |x| > lambd, 0 elsewhere."""
        ...

    @staticmethod
    def hardtanh(tensor: Tensor, minimum: float, maximum: float, /) -> Tensor:
        """x, at least `minimum` and at most `maximum`."""
        ...

    @staticmethod
    def prelu(tensor: Tensor, alpha: Tensor, /) -> Tensor:
        """x where x >= 0, alpha * x elsewhere; alpha `[1]`, or one per channel of `[batch, channels, ..]`."""
        ...

    @staticmethod
    def softmax(tensor: Tensor, dim: int, /) -> Tensor:
        """e^x / sum(e^x) along a dimension."""
        ...

    @staticmethod
    def softmin(tensor: Tensor, dim: int, /) -> Tensor:
        """softmax(-x) along a dimension."""
        ...

    @staticmethod
    def log_softmax(tensor: Tensor, dim: int, /) -> Tensor:
        """log(softmax(x)) along a dimension."""
        ...

    @staticmethod
    def quiet_softmax(tensor: Tensor, dim: int, /) -> Tensor:
        """e^x / (1 + sum(e^x)) along a dimension."""
        ...

    @staticmethod
    def glu(tensor: Tensor, dim: int, /) -> Tensor:
        """The first half along a dimension times the sigmoid of the second half: that dimension is halved."""
        ...
