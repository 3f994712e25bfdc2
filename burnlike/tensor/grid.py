"""Coordinates of grids, and images sampled at them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, overload

import torch

from ..errors import TensorTypeError, TensorValueError
from .core.base import B2, K2, B, D, FloatLike, Floats, K, Tensor, TensorBase, derive, like
from .core.kinds import D1, D2, D3, D4, MAX_RANK, Float
from .core.operands import computed, ranked_spec, tensor_operand
from .core.spec import Spec
from .options import GridSampleMode, GridSampleOptions
from .options.base import Options, one_of

GridIndexing: TypeAlias = Literal["Matrix", "Cartesian"]
GridSparsity: TypeAlias = Literal["Dense", "Sparse"]
IndexPos: TypeAlias = Literal["First", "Last"]
"""Whether the dimension of the stacked grids comes first or last."""


@dataclass(frozen=True, kw_only=True)
class GridOptions(Options):
    """The form of a grid's coordinates.

    Attributes:
        indexing: `Matrix`: dimension i is that of vector i; `Cartesian`: dimensions 0 and 1 are swapped.
        sparsity: `Dense`: each result has the whole grid's shape; `Sparse`: size 1 where its vector does not vary.
    """

    indexing: GridIndexing = "Matrix"
    sparsity: GridSparsity = "Dense"

    def __post_init__(self) -> None:
        self._one_of("indexing", ("Matrix", "Cartesian"))
        self._one_of("sparsity", ("Dense", "Sparse"))


@overload
def meshgrid(
    tensors: "tuple[Tensor[B2, D1, K2]]", options: GridOptions | GridIndexing | GridSparsity = ...
) -> "list[Tensor[B2, D1, K2]]": ...
@overload
def meshgrid(
    tensors: "tuple[Tensor[B2, D1, K2], Tensor[B2, D1, K2]]", options: GridOptions | GridIndexing | GridSparsity = ...
) -> "list[Tensor[B2, D2, K2]]": ...
@overload
def meshgrid(
    tensors: "tuple[Tensor[B2, D1, K2], Tensor[B2, D1, K2], Tensor[B2, D1, K2]]",
    options: GridOptions | GridIndexing | GridSparsity = ...,
) -> "list[Tensor[B2, D3, K2]]": ...
@overload
def meshgrid(
    tensors: "Sequence[Tensor[B2, D1, K2] | torch.Tensor]", options: GridOptions | GridIndexing | GridSparsity = ...
) -> "list[Tensor[B2, Any, K2]]": ...
def meshgrid(tensors: Any, options: Any = "Dense") -> Any:
    """The coordinates of a grid's points, one tensor per dimension. `N of [n_i] -> N of [n_1, .., n_N]`.
    The vectors are of any kind; of the options, the indexing or sparsity alone will do.
    Torch: `torch.meshgrid(*tensors, indexing="ij")`. Differs: sparse results too.
    """
    spec, inner = _vectors("Meshgrid", tensors, MAX_RANK)
    chosen = _options(options)
    grids = spec.module.meshgrid(inner, chosen.indexing == "Cartesian", chosen.sparsity == "Sparse")
    return [derive(grid, spec) for grid in grids]


@overload
def meshgrid_stack(tensors: "tuple[Tensor[B2, D1, K2]]", index_pos: IndexPos = ...) -> "Tensor[B2, D2, K2]": ...
@overload
def meshgrid_stack(
    tensors: "tuple[Tensor[B2, D1, K2], Tensor[B2, D1, K2]]", index_pos: IndexPos = ...
) -> "Tensor[B2, D3, K2]": ...
@overload
def meshgrid_stack(
    tensors: "tuple[Tensor[B2, D1, K2], Tensor[B2, D1, K2], Tensor[B2, D1, K2]]", index_pos: IndexPos = ...
) -> "Tensor[B2, D4, K2]": ...
@overload
def meshgrid_stack(
    tensors: "Sequence[Tensor[B2, D1, K2] | torch.Tensor]", index_pos: IndexPos = ...
) -> "Tensor[B2, Any, K2]": ...
def meshgrid_stack(tensors: Any, index_pos: IndexPos = "First") -> Any:
    """The coordinates of a grid's points in one tensor. `N of [n_i] -> [N, n_1, ..]`, or `[n_1, .., N]`.
    Torch: `torch.stack(torch.meshgrid(*tensors, indexing="ij"), dim)`.
    """
    spec, inner = _vectors("Meshgrid Stack", tensors, MAX_RANK - 1)
    one_of("Meshgrid Stack", "index_pos", index_pos, ("First", "Last"))
    return derive(spec.module.meshgrid_stack(inner, index_pos == "Last"), spec)


def affine_grid_2d(transform: "Tensor[B2, D3, Float]", dims: Sequence[int]) -> "Tensor[B2, D4, Float]":
    """The transformed coordinates x, y of each element of images. `[B, 2, 3] -> [B, H, W, 2]`.
    Untransformed they are -1 to 1 from the first to the last element, and 0 where there is only one. `dims` are the
    `[B, C, H, W]` of the images.
    Torch: `F.affine_grid(transform, dims, align_corners=True)`. Differs: either batch may be 1.
    """
    spec = ranked_spec("affine_grid_2d", transform, 3)
    if len(dims) != 4 or min(dims) < 1:
        raise TensorValueError("Affine Grid 2d", f"expected the sizes [B, C, H, W], each 1 or above, got {list(dims)}")
    batch, _, height, width = dims
    shape = list(transform.inner.shape)
    if shape[1:] != [2, 3] or (shape[0] != batch and 1 not in (shape[0], batch)):
        raise TensorValueError("Affine Grid 2d", f"expected transformations [{batch}, 2, 3], got {shape}")
    return derive(spec.module.affine_grid_2d(transform.inner, max(batch, shape[0]), height, width), spec)


def _vectors(operation: str, tensors: Any, most: int) -> tuple[Spec, list[Any]]:
    tensors = list(tensors)
    if not 1 <= len(tensors) <= most:
        raise TensorValueError(operation, f"expected 1 to {most} vectors, got {len(tensors)}")
    spec = next((tensor.spec for tensor in tensors if isinstance(tensor, TensorBase)), None)
    if spec is None:
        raise TensorTypeError(operation, f"expected Tensors, got {type(tensors[0]).__name__}")
    return spec, [tensor_operand(operation, spec.ranks[1], tensor) for tensor in tensors]


def _options(options: Any) -> GridOptions:
    if isinstance(options, GridOptions):
        return options
    if options in ("Matrix", "Cartesian"):
        return GridOptions(indexing=options)
    one_of("Meshgrid", "options", options, ("Dense", "Sparse", "Matrix", "Cartesian"))
    return GridOptions(sparsity=options)


_MODES = {"Nearest": "nearest", "Bilinear": "bilinear", "Bicubic": "bicubic"}
_PADDINGS = {"Zeros": "zeros", "Border": "border", "Reflection": "reflection"}


class GridMethods(TensorBase[B, D, K]):
    """Sampling."""

    __slots__ = ()

    def grid_sample_2d(
        self: "Floats[B, D4]", grid: "FloatLike[B, D4]", options: GridSampleOptions | GridSampleMode | None = None
    ) -> "Tensor[B, D4, Float]":
        """Values at coordinates x, y from -1 to 1. `[N, C, H, W]` at `[N, H', W', 2] -> [N, C, H', W']`.
        x is along W, y along H; by default bilinear, zeros outside, corners not aligned.
        Torch: `F.grid_sample`. Differs: options instead of arguments.
        """
        name = "grid_sample_2d"
        spec = ranked_spec(name, self, 4)
        places = tensor_operand(name, spec, grid)
        chosen = _sample_options(options)
        shape, at = self.inner.shape, places.shape
        if at[-1] != 2 or at[0] != shape[0]:
            raise TensorValueError(
                "Grid Sample 2d", f"expected a grid [{shape[0]}, H, W, 2] for {list(shape)}, got {list(at)}"
            )
        how = _MODES[chosen.mode], _PADDINGS[chosen.padding_mode], chosen.align_corners
        return like(computed(name, spec.module.grid_sample_2d, self.inner, places, *how), spec)


def _sample_options(options: Any) -> GridSampleOptions:
    if options is None:
        return GridSampleOptions()
    if isinstance(options, str):
        return GridSampleOptions(options)  # pyright: ignore[reportArgumentType]
    if not isinstance(options, GridSampleOptions):
        raise TensorTypeError("Grid Sample 2d", f"expected GridSampleOptions or a mode, got {type(options).__name__}")
    return options
