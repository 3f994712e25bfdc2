"""Parts and means of tensors."""

from torch import Tensor

from ...tensor.torch_bridge.torch_function import lift
from ..layer import Layer, shape_error
from .configs import MeanConfig, SelectConfig, SplitConfig


class Split(Layer):
    """The parts of the dimension `dim`, in order.

    Torch: `torch.split`.
    """

    def __init__(self, config: SplitConfig) -> None:
        super().__init__()
        self.sizes = config.sizes
        self.dim = config.dim

    @lift
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """`[..., sum of sizes, ...] ->` a tuple of one tensor for each size.

        Raises:
            ShapeError: x has no dimension `dim`, or it is of another size.
        """
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != sum(self.sizes):
            raise shape_error(self, f"size {sum(self.sizes)} of dimension {self.dim}", list(x.shape))
        return x.split(self.sizes, self.dim)


class Select(Layer):
    """The elements at `index` of the dimension `dim`.

    Torch: `Tensor.select`.
    """

    def __init__(self, config: SelectConfig) -> None:
        super().__init__()
        self.dim = config.dim
        self.index = config.index

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., size, ...] -> [..., ...]`, without the dimension.

        Raises:
            ShapeError: x has no dimension `dim`, or it is too short.
        """
        if not -x.ndim <= self.dim < x.ndim or not -x.shape[self.dim] <= self.index < x.shape[self.dim]:
            raise shape_error(self, f"an index {self.index} in dimension {self.dim}", list(x.shape))
        return x.select(self.dim, self.index)


class Mean(Layer):
    """The mean over `dims`.

    Torch: `torch.mean`.
    """

    def __init__(self, config: MeanConfig) -> None:
        super().__init__()
        self.dims = config.dims
        self.keep_dims = config.keep_dims

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]` without the dimensions `dims`, or with 1 in their places.

        Raises:
            ShapeError: x lacks one of them, or two of them are one.
        """
        if not all(-x.ndim <= dim < x.ndim for dim in self.dims) or len({it % x.ndim for it in self.dims}) < len(
            self.dims
        ):
            raise shape_error(self, f"dimensions {list(self.dims)}", list(x.shape))
        return x.mean(self.dims, keepdim=self.keep_dims)
