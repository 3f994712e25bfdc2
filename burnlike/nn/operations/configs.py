"""The configs of operations on tensors. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta, ModuleConfig
from ...config.bounds import CountOrZero, Dimension, Finite, Size, at_most
from ...config.roles import Built
from ..initializers.configs import Initializer, Normal
from ..roles import LayerFacts

if TYPE_CHECKING:
    from . import arithmetic, shapes

_Dimensions = Annotated[tuple[Dimension, ...], Meta(min_length=1, max_length=64)]
_Index = Annotated[int, Meta(ge=-(2**31)), at_most(2**31 - 1, "no dimension is larger")]
_NewSize = Annotated[int, Meta(ge=-1), at_most(2**31 - 1, "no dimension is larger")]


class AddConfig(ModuleConfig["shapes.Add"], tag="Add"):
    """The sum of two or more tensors, element by element."""

    facts = LayerFacts(inputs=(2, None), divides_sequences=True)


class MultiplyConfig(ModuleConfig["shapes.Multiply"], tag="Multiply"):
    """The product of two or more tensors, element by element."""

    facts = LayerFacts(inputs=(2, None), divides_sequences=True)


class ConcatConfig(ModuleConfig["shapes.Concat"], tag="Concat"):
    """Two or more tensors one after the other in the dimension dim; a negative one counts from the last."""

    facts = LayerFacts(inputs=(2, None))

    dim: Dimension


class SplitConfig(ModuleConfig["shapes.Split"], tag="Split"):
    """One tensor as several: the parts of one dimension, in order.

    Attributes:
        sizes: of the parts; together the size of the dimension.
        dim: that is split; negative ones count from the last.
    """

    facts = LayerFacts(gives_several=True)

    sizes: Annotated[tuple[Size, ...], Meta(min_length=2)]
    dim: Dimension = -1


class SelectConfig(ModuleConfig["shapes.Select"], tag="Select"):
    """The elements at an index of the dimension dim, which is left out: the first position, the last step."""

    dim: Dimension
    index: _Index


class StackConfig(ModuleConfig["shapes.Stack"], tag="Stack"):
    """Two or more tensors of one shape as one, side by side in a new dimension dim."""

    facts = LayerFacts(inputs=(2, None))

    dim: Dimension


class SliceConfig(ModuleConfig["shapes.Slice"], tag="Slice"):
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


class PadConfig(ModuleConfig["shapes.Pad"], tag="Pad"):
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


class MeanConfig(ReductionConfig["shapes.Mean"], tag="Mean"):
    """The mean over dimensions."""


class SumConfig(ReductionConfig["shapes.Sum"], tag="Sum"):
    """The sum over dimensions."""


class MaxConfig(ReductionConfig["shapes.Max"], tag="Max"):
    """The largest element over dimensions."""


class MinConfig(ReductionConfig["shapes.Min"], tag="Min"):
    """The smallest element over dimensions."""


class ParameterConfig(ModuleConfig["arithmetic.Parameter"], tag="Parameter"):
    """A trained tensor, the same for each item of a batch: a class token, latents, learned positions.

    Attributes:
        shape: of it, without the batch.
        initializer: of it.
    """

    shape: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=63)]
    initializer: Initializer = Normal(std=0.02)


class FlattenConfig(ModuleConfig["shapes.Flatten"], tag="Flatten"):
    """Several dimensions in a row as one.

    Attributes:
        start_dim: the first of them; 1 leaves the batch as it is.
        end_dim: the last of them; negative ones count from the last.
    """

    start_dim: Dimension = 1
    end_dim: Dimension = -1


class ReshapeConfig(ModuleConfig["shapes.Reshape"], tag="Reshape"):
    """The same elements in another shape.

    Attributes:
        shape: size of each dimension; 0 is the size that the input has there, and one -1 is what is left.
    """

    shape: Annotated[tuple[_NewSize, ...], Meta(min_length=1, max_length=64)]

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.shape.count(-1) > 1:
            yield "shape", f"expected at most one -1, got {list(self.shape)}"


class PermuteConfig(ModuleConfig["shapes.Permute"], tag="Permute"):
    """The dimensions in another order.

    Attributes:
        dims: the input's dimension at each place, each once: `[0, 2, 1]` swaps the last two of three.
    """

    dims: _Dimensions

    def validate(self) -> Iterable[tuple[str, str]]:
        if sorted(dim % len(self.dims) for dim in self.dims) != list(range(len(self.dims))):
            yield "dims", f"expected each of 0..{len(self.dims) - 1} once, got {list(self.dims)}"


class SubtractConfig(ModuleConfig["arithmetic.Subtract"], tag="Subtract"):
    """The first tensor less the second, element by element."""

    facts = LayerFacts(inputs=(2, 2))


class DivideConfig(ModuleConfig["arithmetic.Divide"], tag="Divide"):
    """The first tensor by the second, element by element."""

    facts = LayerFacts(inputs=(2, 2))


class MatMulConfig(ModuleConfig["arithmetic.MatMul"], tag="MatMul"):
    """The matrix product of the last two dimensions of two tensors."""

    facts = LayerFacts(inputs=(2, 2))


class NegateConfig(ModuleConfig["arithmetic.Negate"], tag="Negate"):
    """Each element with the other sign."""

    facts = LayerFacts(keeps="all")


class ExpConfig(ModuleConfig["arithmetic.Exp"], tag="Exp"):
    """e to the power of each element."""

    facts = LayerFacts(keeps="all")


class LogConfig(ModuleConfig["arithmetic.Log"], tag="Log"):
    """The natural logarithm of each element."""

    facts = LayerFacts(keeps="all")


class SqrtConfig(ModuleConfig["arithmetic.Sqrt"], tag="Sqrt"):
    """The square root of each element."""

    facts = LayerFacts(keeps="all")


class SoftmaxConfig(ModuleConfig["arithmetic.Softmax"], tag="Softmax"):
    """exp(x) over its sum in the dimension dim."""

    facts = LayerFacts(keeps="all")

    dim: Dimension = -1


class ConstantTensorConfig(ModuleConfig["arithmetic.ConstantTensor"], tag="Constant"):
    """A number as a tensor, for operations between tensors: of size 1 in each dimension of its input."""

    value: Finite
