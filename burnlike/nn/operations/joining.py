"""Several tensors become one."""

from collections.abc import Callable
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor

from ...errors import ArgumentError
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank, KeepsType
from ..layer import ConfiguredLayer, Layer, shape_error
from ..torch_counterpart import AnyLibrary
from .configs import ConcatConfig, StackConfig


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


class Concat(KeepsType, AnyLibrary, ConfiguredLayer, config=ConcatConfig):
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
                raise shape_error(
                    self,
                    f"the sizes of the first input, {list(first.shape)}, but for dimension {self.dim}",
                    list(x.shape),
                )
        return torch.cat(inputs, self.dim)


class Stack(ChangesRank, AnyLibrary, ConfiguredLayer, config=StackConfig):
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
