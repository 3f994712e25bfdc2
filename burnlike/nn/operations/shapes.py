"""Operations that join tensors, cut parts of them, reduce or rearrange their dimensions."""

from collections.abc import Callable
from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from ...errors import ArgumentError
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank, KeepsType
from ..layer import ConfiguredLayer, Layer, shape_error
from ..torch_counterpart import AnyLibrary
from . import configs


class _Elementwise(KeepsType, AnyLibrary, Layer):
    """One operation between all inputs."""

    operation: ClassVar[Callable[[Tensor, Tensor], Tensor]]

    @lift
    def forward(self, *inputs: Tensor) -> Tensor:
        """Two or more tensors (else ArgumentError) of sizes that are equal or 1 `->` one of the larger sizes."""
        expect_alike(self, inputs)
        return reduce(type(self).operation, inputs)


class Add(_Elementwise):
    """x1 + x2 + ..., element by element; sizes of 1 are repeated. Torch: `torch.add`."""

    operation = torch.add


class Multiply(_Elementwise):
    """x1 * x2 * ..., element by element; sizes of 1 are repeated. Torch: `torch.mul`."""

    operation = torch.mul


class Concat(KeepsType, AnyLibrary, ConfiguredLayer, config=configs.ConcatConfig):
    """Tensors one after the other in the dimension `dim`. Torch: `torch.cat`."""

    dim: int

    @lift
    def forward(self, *inputs: Tensor) -> Tensor:
        """Two or more tensors (else ArgumentError) that differ in the size of `dim` only `->` one of their sum."""
        _expect_several(self, inputs)
        first = inputs[0]
        expect_dim(self, first, self.dim)
        for x in inputs[1:]:
            if x.ndim != first.ndim or _without(x, self.dim) != _without(first, self.dim):
                expected = f"the sizes of the first input, {list(first.shape)}, but for dimension {self.dim}"
                raise shape_error(self, expected, list(x.shape))
        return torch.cat(inputs, self.dim)


class Stack(ChangesRank, AnyLibrary, ConfiguredLayer, config=configs.StackConfig):
    """Tensors side by side in a new dimension `dim`. Torch: `torch.stack`."""

    dim: int

    @lift
    def forward(self, *inputs: Tensor) -> Tensor:
        """Two or more tensors (else ArgumentError) of one shape `->` one with one more dimension."""
        _expect_several(self, inputs)
        first = inputs[0]
        for x in inputs[1:]:
            if x.shape != first.shape:
                raise shape_error(self, f"the shape of the first input, {list(first.shape)}", list(x.shape))
        if not -first.ndim - 1 <= self.dim <= first.ndim:
            raise shape_error(self, f"a dimension {self.dim} of the result", list(first.shape))
        return torch.stack(inputs, self.dim)


def expect_dim(layer: Layer, x: Tensor, dim: int) -> None:
    if not -x.ndim <= dim < x.ndim:
        raise shape_error(layer, f"a dimension {dim}", list(x.shape))


def _without(x: Tensor, dim: int) -> list[int]:
    sizes = list(x.shape)
    del sizes[dim]
    return sizes


def _expect_several(layer: Layer, inputs: tuple[Tensor, ...]) -> None:
    if len(inputs) < 2:
        raise ArgumentError(f"{type(layer).__name__}: expected two or more tensors, got {len(inputs)}")


def expect_alike(layer: Layer, inputs: tuple[Tensor, ...]) -> None:
    """Check that the inputs have as many dimensions, of sizes that are equal or 1."""
    _expect_several(layer, inputs)
    first = inputs[0]
    for x in inputs[1:]:
        sizes = zip(first.shape, x.shape, strict=False)
        if x.ndim != first.ndim or any(one != other and one != 1 and other != 1 for one, other in sizes):
            raise shape_error(layer, f"the sizes of the first input, {list(first.shape)}, or 1", list(x.shape))


class Flatten(ChangesRank, AnyLibrary, ConfiguredLayer, config=configs.FlattenConfig):
    """The dimensions from `start_dim` to `end_dim` as one. Torch: `nn.Flatten`."""

    start_dim: int
    end_dim: int

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, a, b, ...] -> [batch, a * b * ...]`, as the dimensions are by default."""
        within = all(-x.ndim <= dim < x.ndim for dim in (self.start_dim, self.end_dim))
        if not within or self.start_dim % x.ndim > self.end_dim % x.ndim:
            raise shape_error(self, f"dimensions from {self.start_dim} to {self.end_dim}", list(x.shape))
        return x.flatten(self.start_dim, self.end_dim)


class Reshape(ChangesRank, AnyLibrary, ConfiguredLayer, config=configs.ReshapeConfig):
    """The same elements in `shape`.
    Torch: `Tensor.reshape`. Differs: 0 in the shape stands for the size that the input has there, as in Burn.
    """

    shape: tuple[int, ...]

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> shape`. Raises ShapeError if x has another number of elements, or no dimension at a 0."""
        if any(size == 0 and dim >= x.ndim for dim, size in enumerate(self.shape)):
            raise shape_error(self, f"a dimension for each 0 of {list(self.shape)}", list(x.shape))
        sizes = [x.shape[dim] if size == 0 else size for dim, size in enumerate(self.shape)]
        n_elements = 1
        for size in sizes:
            n_elements *= size if size != -1 else 1
        if x.numel() % n_elements if -1 in sizes else x.numel() != n_elements:
            raise shape_error(self, f"as many elements as {list(self.shape)}", list(x.shape))
        return x.reshape(sizes)


class Permute(KeepsType, AnyLibrary, ConfiguredLayer, config=configs.PermuteConfig):
    """The dimensions in the order `dims`. Torch: `Tensor.permute`."""

    dims: tuple[int, ...]

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """A tensor of as many dimensions as `dims` has `->` the same, its dimensions in that order."""
        if x.ndim != len(self.dims):
            raise shape_error(self, f"{len(self.dims)} dimensions", list(x.shape))
        return x.permute(self.dims)


class Pad(KeepsType, AnyLibrary, Layer):
    """`before` and `after` more elements at the ends of the dimension `dim`.
    Torch: `nn.functional.pad`. Differs: pads one dimension, which may be any; `edge` is torch's `replicate`.
    """

    def __init__(self, config: configs.PadConfig) -> None:
        super().__init__()
        self.dim = config.dim
        self.before = config.before
        self.after = config.after
        self.mode = config.mode
        self.value = config.value

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., size, ...] -> [..., before + size + after, ...]`. ShapeError if it is too short to mirror."""
        expect_dim(self, x, self.dim)
        needed = max(self.before, self.after) + 1 if self.mode == "reflect" else int(self.mode == "edge")
        if x.shape[self.dim] < needed:
            raise shape_error(self, f"at least {needed} elements in dimension {self.dim}", list(x.shape))
        last = x.movedim(self.dim, -1)
        ends = (self.before, self.after)
        if self.mode == "constant":
            return functional.pad(last, ends, value=self.value).movedim(-1, self.dim)
        # These modes take three dimensions only.
        rows = last.reshape(1, -1, last.shape[-1])
        padded = functional.pad(rows, ends, mode="replicate" if self.mode == "edge" else "reflect")
        return padded.reshape(*last.shape[:-1], padded.shape[-1]).movedim(-1, self.dim)


class Split(AnyLibrary, ConfiguredLayer, config=configs.SplitConfig):
    """The parts of the dimension `dim`, in order. Torch: `torch.split`."""

    sizes: tuple[int, ...]
    dim: int

    @lift
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """`[..., sum of sizes, ...] ->` a tuple of one tensor for each size."""
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != sum(self.sizes):
            raise shape_error(self, f"size {sum(self.sizes)} of dimension {self.dim}", list(x.shape))
        return x.split(self.sizes, self.dim)


class Select(ChangesRank, AnyLibrary, ConfiguredLayer, config=configs.SelectConfig):
    """The elements at `index` of the dimension `dim`. Torch: `Tensor.select`."""

    dim: int
    index: int

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., size, ...] -> [..., ...]`, without the dimension. Raises ShapeError if it is too short."""
        if not -x.ndim <= self.dim < x.ndim or not -x.shape[self.dim] <= self.index < x.shape[self.dim]:
            raise shape_error(self, f"an index {self.index} in dimension {self.dim}", list(x.shape))
        return x.select(self.dim, self.index)


class Slice(KeepsType, AnyLibrary, ConfiguredLayer, config=configs.SliceConfig):
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
        part = range(size)[self.start : self.end : self.step]  # torch.compile of torch 2.11 traces no `slice.indices`
        if not -size <= self.start < size or not part or (self.end or 0) > size:
            raise shape_error(self, f"indices {self.start} to {self.end} in dimension {self.dim}", list(x.shape))
        place = (slice(None),) * (self.dim % x.ndim)
        return x[*place, part.start : part.stop : part.step]


class _Reduction(ChangesRank, AnyLibrary, ConfiguredLayer, config=configs.ReductionConfig):
    """One operation over dimensions."""

    operation: ClassVar[Callable[..., Tensor]]

    dims: tuple[int, ...]
    keep_dims: bool

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]` without the dimensions `dims`, or with 1 in their places; ShapeError if two are one."""
        if not all(-x.ndim <= dim < x.ndim for dim in self.dims) or len({dim % x.ndim for dim in self.dims}) < len(
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
