"""Gated linear unit."""

from torch import Tensor
from torch.nn import functional

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import shape_error
from .configs import GLUConfig


class GLU(KeepsType, Module):
    """a * sigmoid(b), a and b the halves of x along the dimension `dim` (Dauphin et al. 2017, eq. 1).

    Torch: `nn.GLU`.
    Differs: `dim` has no default.
    """

    def __init__(self, config: GLUConfig) -> None:
        super().__init__()
        self.dim = config.dim

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., 2 * size, ...] -> [..., size, ...]`.

        Raises:
            ShapeError: x has no dimension `dim`, or its size is odd.
        """
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] % 2:
            raise shape_error(self, f"an even size of dimension {self.dim}", list(x.shape))
        return functional.glu(x, self.dim)
