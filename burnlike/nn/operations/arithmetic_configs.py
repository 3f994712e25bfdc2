"""The configs of arithmetic on tensors. Imports no torch."""

from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Dimension, Finite

if TYPE_CHECKING:
    from .arithmetic import ConstantTensor, Divide, Exp, Log, MatMul, Negate, Softmax, Sqrt, Subtract


class SubtractConfig(ModuleConfig["Subtract"], tag="Subtract", builds=".arithmetic"):
    """The first tensor less the second, element by element."""


class DivideConfig(ModuleConfig["Divide"], tag="Divide", builds=".arithmetic"):
    """The first tensor by the second, element by element."""


class MatMulConfig(ModuleConfig["MatMul"], tag="MatMul", builds=".arithmetic"):
    """The matrix product of the last two dimensions of two tensors."""


class NegateConfig(ModuleConfig["Negate"], tag="Negate", builds=".arithmetic"):
    """Each element with the other sign."""


class ExpConfig(ModuleConfig["Exp"], tag="Exp", builds=".arithmetic"):
    """e to the power of each element."""


class LogConfig(ModuleConfig["Log"], tag="Log", builds=".arithmetic"):
    """The natural logarithm of each element."""


class SqrtConfig(ModuleConfig["Sqrt"], tag="Sqrt", builds=".arithmetic"):
    """The square root of each element."""


class SoftmaxConfig(ModuleConfig["Softmax"], tag="Softmax", builds=".arithmetic"):
    """exp(x) over its sum in one dimension.

    Attributes:
        dim: in which the results add up to 1; negative ones count from the last.
    """

    dim: Dimension = -1


class ConstantTensorConfig(ModuleConfig["ConstantTensor"], tag="Constant", builds=".arithmetic"):
    """A number as a tensor, for operations between tensors: of size 1 in each dimension of its input.

    Attributes:
        value: the number.
    """

    value: Finite
