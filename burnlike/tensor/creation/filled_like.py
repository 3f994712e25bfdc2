"""Tensors like another, filled with one value."""

from typing import TYPE_CHECKING

from ..core.base import B, D, K, TensorBase, wrap
from ..core.operands import scalar

if TYPE_CHECKING:
    from ..tensor import Tensor


class FilledLikeMethods(TensorBase[B, D, K]):
    """Tensors in the shape, dtype and backend of the receiver, filled with one value."""

    __slots__ = ()

    def empty_like(self) -> "Tensor[B, D, K]":
        """Undefined values in the shape, dtype and backend of this tensor. `[..] -> [..]`.

        Torch: `torch.empty_like`.
        """
        spec = self.spec
        return wrap(spec.ops.empty_like(self.inner), spec)

    def zeros_like(self) -> "Tensor[B, D, K]":
        """Zeros (False) in the shape, dtype and backend of this tensor. `[..] -> [..]`.

        Torch: `torch.zeros_like`.
        """
        spec = self.spec
        return wrap(spec.ops.zeros_like(self.inner), spec)

    def ones_like(self) -> "Tensor[B, D, K]":
        """Ones (True) in the shape, dtype and backend of this tensor. `[..] -> [..]`.

        Torch: `torch.ones_like`.
        """
        spec = self.spec
        return wrap(spec.ops.ones_like(self.inner), spec)

    def full_like(self, fill_value: float) -> "Tensor[B, D, K]":
        """`fill_value` in the shape, dtype and backend of this tensor. `[..] -> [..]`.

        Torch: `torch.full_like`.
        """
        spec = self.spec
        return wrap(spec.ops.full_like(self.inner, scalar("full_like", spec, fill_value)), spec)
