"""The same elements in other dimensions, and more of them."""

from torch import Tensor
from torch.nn import functional

from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank, KeepsType
from ..layer import ConfiguredLayer, Layer, shape_error
from ..torch_counterpart import AnyLibrary
from .configs import FlattenConfig, PadConfig, PermuteConfig, ReshapeConfig
from .joining import expect_dim


class Flatten(ChangesRank, AnyLibrary, ConfiguredLayer, config=FlattenConfig):
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


class Reshape(ChangesRank, AnyLibrary, ConfiguredLayer, config=ReshapeConfig):
    """The same elements in `shape`.

    Torch: `Tensor.reshape`.
    Differs: 0 in the shape stands for the size that the input has there, as in Burn.
    """

    shape: tuple[int, ...]

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> shape`. Raises ShapeError if x has another number of elements, or no dimension at a 0."""
        if any(size == 0 and dim >= x.ndim for dim, size in enumerate(self.shape)):
            raise shape_error(self, f"a dimension for each 0 of {list(self.shape)}", list(x.shape))
        sizes = [x.shape[dim] if size == 0 else size for dim, size in enumerate(self.shape)]
        given = 1
        for size in sizes:
            given *= size if size != -1 else 1
        if x.numel() % given if -1 in sizes else x.numel() != given:
            raise shape_error(self, f"as many elements as {list(self.shape)}", list(x.shape))
        return x.reshape(sizes)


class Permute(KeepsType, AnyLibrary, ConfiguredLayer, config=PermuteConfig):
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

    Torch: `nn.functional.pad`.
    Differs: of one dimension, which may be any; `edge` is torch's `replicate`.
    """

    def __init__(self, config: PadConfig) -> None:
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
