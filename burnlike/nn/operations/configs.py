"""The configs of operations on tensors. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import Dimension, Size, at_most

if TYPE_CHECKING:
    import torch

    from .joining import Add, Concat, Multiply
    from .reshaping import Flatten, Permute, Reshape
    from .selecting import Mean, Select, Split

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


class MeanConfig(ModuleConfig, tag="Mean"):
    """The mean over dimensions.

    Attributes:
        dims: over which it is taken; negative ones count from the last.
        keep_dims: whether they stay, with size 1.
    """

    dims: _Dimensions
    keep_dims: bool = False

    def init(self, device: "torch.device | str | None" = None) -> "Mean":
        from .selecting import Mean

        return Mean(self)


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
