"""The configs of operations on tensors. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta, ModuleConfig
from ...config.bounds import CountOrZero, Dimension, Finite, Size, at_most
from ...config.roles import Built
from ..initializers.configs import Initializer, Normal

if TYPE_CHECKING:
    from .arithmetic import ConstantTensor, Divide, Exp, Log, MatMul, Negate, Parameter, Softmax, Sqrt, Subtract
    from .joining import Add, Concat, Multiply, Stack
    from .reshaping import Flatten, Pad, Permute, Reshape
    from .selecting import Max, Mean, Min, Select, Slice, Split, Sum

_Dimensions = Annotated[tuple[Dimension, ...], Meta(min_length=1, max_length=64)]
_Index = Annotated[int, Meta(ge=-(2**31)), at_most(2**31 - 1, "no dimension is larger")]
_NewSize = Annotated[int, Meta(ge=-1), at_most(2**31 - 1, "no dimension is larger")]


class AddConfig(ModuleConfig["Add"], tag="Add", builds=".joining"):
    """The sum of two or more tensors, element by element."""


class MultiplyConfig(ModuleConfig["Multiply"], tag="Multiply", builds=".joining"):
    """The product of two or more tensors, element by element."""


class ConcatConfig(ModuleConfig["Concat"], tag="Concat", builds=".joining"):
    """Two or more tensors one after the other in one dimension.

    Attributes:
        dim: in which they follow each other; negative ones count from the last.
    """

    dim: Dimension


class SplitConfig(ModuleConfig["Split"], tag="Split", builds=".selecting"):
    """One tensor as several: the parts of one dimension, in order.

    Attributes:
        sizes: of the parts; together the size of the dimension.
        dim: that is split; negative ones count from the last.
    """

    sizes: Annotated[tuple[Size, ...], Meta(min_length=2)]
    dim: Dimension = -1


class SelectConfig(ModuleConfig["Select"], tag="Select", builds=".selecting"):
    """The elements at one index of a dimension, which is left out: the first position, the last step.

    Attributes:
        dim: that is left out; negative ones count from the last.
        index: in it; negative ones count from the end.
    """

    dim: Dimension
    index: _Index


class StackConfig(ModuleConfig["Stack"], tag="Stack", builds=".joining"):
    """Two or more tensors of one shape as one, side by side in a new dimension.

    Attributes:
        dim: of the result, in which they follow each other; negative ones count from its last.
    """

    dim: Dimension


class SliceConfig(ModuleConfig["Slice"], tag="Slice", builds=".selecting"):
    """A part of one dimension, which stays.

    Attributes:
        dim: that is cut; negative ones count from the last.
        start: the first index; negative ones count from the end.
        end: the index after the last; negative ones count from the end, None is the end.
        step: from one index to the next.
    """

    dim: Dimension
    start: _Index = 0
    end: _Index | None = None
    step: Size = 1


class PadConfig(ModuleConfig["Pad"], tag="Pad", builds=".reshaping"):
    """More elements at the two ends of one dimension.

    Attributes:
        dim: that becomes longer; negative ones count from the last.
        before: elements before the first.
        after: elements after the last.
        mode: `constant`: all are `value`; `reflect`: mirrored at the first and last element; `edge`: these repeated.
        value: of `constant`.
    """

    dim: Dimension
    before: CountOrZero = 0
    after: CountOrZero = 0
    mode: Literal["constant", "reflect", "edge"] = "constant"
    value: Finite = 0.0


class ReductionConfig(ModuleConfig[Built]):
    """An operation over dimensions.

    Attributes:
        dims: over which it is taken; negative ones count from the last.
        keep_dims: whether they stay, with size 1.
    """

    dims: _Dimensions
    keep_dims: bool = False


class MeanConfig(ReductionConfig["Mean"], tag="Mean", builds=".selecting"):
    """The mean over dimensions."""


class SumConfig(ReductionConfig["Sum"], tag="Sum", builds=".selecting"):
    """The sum over dimensions."""


class MaxConfig(ReductionConfig["Max"], tag="Max", builds=".selecting"):
    """The largest element over dimensions."""


class MinConfig(ReductionConfig["Min"], tag="Min", builds=".selecting"):
    """The smallest element over dimensions."""


class ParameterConfig(ModuleConfig["Parameter"], tag="Parameter", builds=".arithmetic"):
    """A trained tensor, the same for each item of a batch: a class token, latents, learned positions.

    Attributes:
        shape: of it, without the batch.
        initializer: of it.
    """

    shape: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=63)]
    initializer: Initializer = Normal(std=0.02)


class FlattenConfig(ModuleConfig["Flatten"], tag="Flatten", builds=".reshaping"):
    """Several dimensions in a row as one.

    Attributes:
        start_dim: the first of them; 1 leaves the batch as it is.
        end_dim: the last of them; negative ones count from the last.
    """

    start_dim: Dimension = 1
    end_dim: Dimension = -1


class ReshapeConfig(ModuleConfig["Reshape"], tag="Reshape", builds=".reshaping"):
    """The same elements in another shape.

    Attributes:
        shape: size of each dimension; 0 is the size that the input has there, and one -1 is what is left.
    """

    shape: Annotated[tuple[_NewSize, ...], Meta(min_length=1, max_length=64)]

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.shape.count(-1) > 1:
            yield "shape", f"expected at most one -1, got {list(self.shape)}"


class PermuteConfig(ModuleConfig["Permute"], tag="Permute", builds=".reshaping"):
    """The dimensions in another order.

    Attributes:
        dims: the input's dimension at each place, each once: `[0, 2, 1]` swaps the last two of three.
    """

    dims: _Dimensions

    def validate(self) -> Iterable[tuple[str, str]]:
        if sorted(dim % len(self.dims) for dim in self.dims) != list(range(len(self.dims))):
            yield "dims", f"expected each of 0..{len(self.dims) - 1} once, got {list(self.dims)}"


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
