"""Parts of tensors, and what is taken over dimensions."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank, KeepsType
from ..layer import ConfiguredLayer, shape_error
from ..torch_counterpart import AnyLibrary
from .configs import ReductionConfig, SelectConfig, SliceConfig, SplitConfig
from .joining import expect_dim


class Split(AnyLibrary, ConfiguredLayer, config=SplitConfig):
    """The parts of the dimension `dim`, in order. Torch: `torch.split`."""

    sizes: tuple[int, ...]
    dim: int

    @lift
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """`[..., sum of sizes, ...] ->` a tuple of one tensor for each size."""
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != sum(self.sizes):
            raise shape_error(self, f"size {sum(self.sizes)} of dimension {self.dim}", list(x.shape))
        return x.split(self.sizes, self.dim)


class Select(ChangesRank, AnyLibrary, ConfiguredLayer, config=SelectConfig):
    """The elements at `index` of the dimension `dim`. Torch: `Tensor.select`."""

    dim: int
    index: int

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., size, ...] -> [..., ...]`, without the dimension. Raises ShapeError if it is too short."""
        if not -x.ndim <= self.dim < x.ndim or not -x.shape[self.dim] <= self.index < x.shape[self.dim]:
            raise shape_error(self, f"an index {self.index} in dimension {self.dim}", list(x.shape))
        return x.select(self.dim, self.index)


class Slice(KeepsType, AnyLibrary, ConfiguredLayer, config=SliceConfig):
    """Every `step`-th element of the dimension `dim` from `start` to `end`. Torch: slicing."""

    dim: int
    start: int
    end: Any  # an index or None; `int | None` would be shown as Rust's Option
    step: int

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., size, ...] -> [..., part, ...]`. Raises ShapeError if nothing is between `start` and `end`."""
        expect_dim(self, x, self.dim)
        size = x.shape[self.dim]
        start, end, step = slice(self.start, self.end, self.step).indices(size)
        if not -size <= self.start < size or end <= start or (self.end or 0) > size:
            raise shape_error(self, f"indices {self.start} to {self.end} in dimension {self.dim}", list(x.shape))
        place = (slice(None),) * (self.dim % x.ndim)
        return x[*place, start:end:step]


class _Reduction(ChangesRank, AnyLibrary, ConfiguredLayer, config=ReductionConfig):
    """One operation over dimensions."""

    operation: ClassVar[Callable[..., Tensor]]

    dims: tuple[int, ...]
    keep_dims: bool

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]` without the dimensions `dims`, or with 1 in their places; ShapeError if two are one."""
        if not all(-x.ndim <= dim < x.ndim for dim in self.dims) or len({it % x.ndim for it in self.dims}) < len(
            self.dims
        ):
            raise shape_error(self, f"dimensions {list(self.dims)}", list(x.shape))
        return type(self).operation(x, self.dims, keepdim=self.keep_dims)


class Mean(_Reduction):
    """The mean over `dims`. Torch: `torch.mean`."""

    operation = torch.mean


class Sum(_Reduction):
    """The sum over `dims`. Torch: `torch.sum`."""

    operation = torch.sum


class Max(_Reduction):
    """The largest element over `dims`; equal ones share the gradient. Torch: `torch.amax`."""

    operation = torch.amax


class Min(_Reduction):
    """The smallest element over `dims`; equal ones share the gradient. Torch: `torch.amin`."""

    operation = torch.amin
