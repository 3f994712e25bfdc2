"""The configs of operations on tensors. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta, ModuleConfig
from ...config.bounds import CountOrZero, Dimension, Finite, Size, at_most
from ..initializers.configs import Initializer, Normal

if TYPE_CHECKING:
    import torch

    from .joining import Add, Concat, Multiply, Stack
    from .parameter import Parameter
    from .reshaping import Flatten, Pad, Permute, Reshape
    from .selecting import Max, Mean, Min, Select, Slice, Split, Sum

_Dimensions = Annotated[tuple[Dimension, ...], Meta(min_length=1, max_length=64)]
_Index = Annotated[int, Meta(ge=-(2**31)), at_most(2**31 - 1, "no dimension is larger")]
_NewSize = Annotated[int, Meta(ge=-1), at_most(2**31 - 1, "no dimension is larger")]


class AddConfig(ModuleConfig, tag="Add"):
    """The sum of two or more tensors, element by element."""

    def init(self, device: "torch.device | str | None" = None) -> "Add":
        from .joining import Add

        return Add()


class MultiplyConfig(ModuleConfig, tag="Multiply"):
    """The product of two or more tensors, element by element."""

    def init(self, device: "torch.device | str | None" = None) -> "Multiply":
        from .joining import Multiply

        return Multiply()


class ConcatConfig(ModuleConfig, tag="Concat"):
    """Two or more tensors one after the other in one dimension.

    Attributes:
        dim: in which they follow each other; negative ones count from the last.
    """

    dim: Dimension

    def init(self, device: "torch.device | str | None" = None) -> "Concat":
        from .joining import Concat

        return Concat(self)


class SplitConfig(ModuleConfig, tag="Split"):
    """One tensor as several: the parts of one dimension, in order.

    Attributes:
        sizes: of the parts; together the size of the dimension.
        dim: that is split; negative ones count from the last.
    """

    sizes: Annotated[tuple[Size, ...], Meta(min_length=2)]
    dim: Dimension = -1

    def init(self, device: "torch.device | str | None" = None) -> "Split":
        from .selecting import Split

        return Split(self)


class SelectConfig(ModuleConfig, tag="Select"):
    """The elements at one index of a dimension, which is left out: the first position, the last step.

    Attributes:
        dim: that is left out; negative ones count from the last.
        index: in it; negative ones count from the end.
    """

    dim: Dimension
    index: _Index

    def init(self, device: "torch.device | str | None" = None) -> "Select":
        from .selecting import Select

        return Select(self)


class StackConfig(ModuleConfig, tag="Stack"):
    """Two or more tensors of one shape as one, side by side in a new dimension.

    Attributes:
        dim: of the result, in which they follow each other; negative ones count from its last.
    """

    dim: Dimension

    def init(self, device: "torch.device | str | None" = None) -> "Stack":
        from .joining import Stack

        return Stack(self)


class SliceConfig(ModuleConfig, tag="Slice"):
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

    def init(self, device: "torch.device | str | None" = None) -> "Slice":
        from .selecting import Slice

        return Slice(self)


class PadConfig(ModuleConfig, tag="Pad"):
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

    def init(self, device: "torch.device | str | None" = None) -> "Pad":
        from .reshaping import Pad

        return Pad(self)


class ReductionConfig(ModuleConfig):
    """An operation over dimensions.

    Attributes:
        dims: over which it is taken; negative ones count from the last.
        keep_dims: whether they stay, with size 1.
    """

    dims: _Dimensions
    keep_dims: bool = False


class MeanConfig(ReductionConfig, tag="Mean"):
    """The mean over dimensions.

    Attributes:
        dims: over which it is taken; negative ones count from the last.
        keep_dims: whether they stay, with size 1.
    """

    def init(self, device: "torch.device | str | None" = None) -> "Mean":
        from .selecting import Mean

        return Mean(self)


class SumConfig(ReductionConfig, tag="Sum"):
    """The sum over dimensions; the fields are those of `Mean`."""

    def init(self, device: "torch.device | str | None" = None) -> "Sum":
        from .selecting import Sum

        return Sum(self)


class MaxConfig(ReductionConfig, tag="Max"):
    """The largest element over dimensions; the fields are those of `Mean`."""

    def init(self, device: "torch.device | str | None" = None) -> "Max":
        from .selecting import Max

        return Max(self)


class MinConfig(ReductionConfig, tag="Min"):
    """The smallest element over dimensions; the fields are those of `Mean`."""

    def init(self, device: "torch.device | str | None" = None) -> "Min":
        from .selecting import Min

        return Min(self)


class ParameterConfig(ModuleConfig, tag="Parameter"):
    """A trained tensor, the same for each item of a batch: a class token, latents, learned positions.

    Attributes:
        shape: of it, without the batch.
        initializer: of it.
    """

    shape: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=63)]
    initializer: Initializer = Normal(std=0.02)

    def init(self, device: "torch.device | str | None" = None) -> "Parameter":
        from .parameter import Parameter

        return Parameter(self, device)


class FlattenConfig(ModuleConfig, tag="Flatten"):
    """Several dimensions in a row as one.

    Attributes:
        start_dim: the first of them; 1 leaves the batch as it is.
        end_dim: the last of them; negative ones count from the last.
    """

    start_dim: Dimension = 1
    end_dim: Dimension = -1

    def init(self, device: "torch.device | str | None" = None) -> "Flatten":
        from .reshaping import Flatten

        return Flatten(self)


class ReshapeConfig(ModuleConfig, tag="Reshape"):
    """The same elements in another shape.

    Attributes:
        shape: size of each dimension; 0 is the size that the input has there, and one -1 is what is left.
    """

    shape: Annotated[tuple[_NewSize, ...], Meta(min_length=1, max_length=64)]

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.shape.count(-1) > 1:
            yield "shape", f"expected at most one -1, got {list(self.shape)}"

    def init(self, device: "torch.device | str | None" = None) -> "Reshape":
        from .reshaping import Reshape

        return Reshape(self)


class PermuteConfig(ModuleConfig, tag="Permute"):
    """The dimensions in another order.

    Attributes:
        dims: the input's dimension at each place, each once: `[0, 2, 1]` swaps the last two of three.
    """

    dims: _Dimensions

    def validate(self) -> Iterable[tuple[str, str]]:
        if sorted(dim % len(self.dims) for dim in self.dims) != list(range(len(self.dims))):
            yield "dims", f"expected each of 0..{len(self.dims) - 1} once, got {list(self.dims)}"

    def init(self, device: "torch.device | str | None" = None) -> "Permute":
        from .reshaping import Permute

        return Permute(self)
