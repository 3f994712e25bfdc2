"""The configs of arithmetic on tensors. Imports no torch."""

from typing import TYPE_CHECKING, Any

from ..._lazy import resolve
from ...config import ModuleConfig
from ...config.bounds import Dimension, Finite

if TYPE_CHECKING:
    import torch


class _ArithmeticConfig(ModuleConfig):
    """An operation whose layer has the name of the class without `Config`."""

    def init(self, device: "torch.device | str | None" = None) -> Any:
        name = type(self).__name__.removesuffix("Config")
        return resolve(f"burnlike.nn.operations.arithmetic:{name}")(self)


class SubtractConfig(_ArithmeticConfig, tag="Subtract"):
    """The first tensor less the second, element by element."""


class DivideConfig(_ArithmeticConfig, tag="Divide"):
    """The first tensor by the second, element by element."""


class MatMulConfig(_ArithmeticConfig, tag="MatMul"):
    """The matrix product of the last two dimensions of two tensors."""


class NegateConfig(_ArithmeticConfig, tag="Negate"):
    """Each element with the other sign."""


class ExpConfig(_ArithmeticConfig, tag="Exp"):
    """e to the power of each element."""


class LogConfig(_ArithmeticConfig, tag="Log"):
    """The natural logarithm of each element."""


class SqrtConfig(_ArithmeticConfig, tag="Sqrt"):
    """The square root of each element."""


class SoftmaxConfig(_ArithmeticConfig, tag="Softmax"):
    """exp(x) over its sum in one dimension.

    Attributes:
        dim: in which the results add up to 1; negative ones count from the last.
    """

    dim: Dimension = -1


class ConstantTensorConfig(_ArithmeticConfig, tag="Constant"):
    """A number as a tensor, for operations between tensors: of size 1 in each dimension of its input.

    Attributes:
        value: the number.
    """

    value: Finite
