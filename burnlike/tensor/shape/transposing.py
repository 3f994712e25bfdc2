"""The order of dimensions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import TensorValueError
from ..core.base import B, D, K, TensorBase, wrap
from ..core.operands import fail

if TYPE_CHECKING:
    from ..tensor import Tensor


class TransposeMethods(TensorBase[B, D, K]):
    """The order of dimensions."""

    __slots__ = ()

    def transpose(self) -> "Tensor[B, D, K]":
        """The last two dimensions in each other's place. `[.., a, b] -> [.., b, a]`.

        Torch: `x.mT`.
        Differs: takes no dimensions; `swap_dims` does.
        """
        spec = self.spec
        try:
            return wrap(spec.ops.swap_dims(self.inner, -2, -1), spec)
        except Exception as error:
            fail("swap_dims", error, self.inner)

    def t(self) -> "Tensor[B, D, K]":
        """The same as `transpose`. `[.., a, b] -> [.., b, a]`.

        Torch: `x.mT`.
        Differs: any rank of 2 or more.
        """
        return self.transpose()

    @property
    def T(self) -> "Tensor[B, D, K]":
        """The same as `transpose`, of a matrix. `[a, b] -> [b, a]`.

        Torch: `x.T`.
        Differs: rank 2 only; torch deprecates others.
        """
        if self.spec.rank != 2:
            raise TensorValueError("T", f"expected a matrix, not rank {self.spec.rank}; use transpose() or permute")
        return self.transpose()

    def swap_dims(self, dim1: int, dim2: int) -> "Tensor[B, D, K]":
        """Two dimensions in each other's place. `[.., a, .., b, ..] -> [.., b, .., a, ..]`.

        Torch: `torch.swapdims`.
        """
        spec = self.spec
        try:
            return wrap(spec.ops.swap_dims(self.inner, dim1, dim2), spec)
        except Exception as error:
            fail("swap_dims", error, self.inner)

    def permute(self, axes: Sequence[int]) -> "Tensor[B, D, K]":
        """Dimension i of the result is dimension `axes[i]`. `[..] -> [..]`.

        Torch: `torch.permute`.
        """
        spec = self.spec
        try:
            return wrap(spec.ops.permute(self.inner, axes), spec)
        except Exception as error:
            if isinstance(error, RuntimeError):
                raise TensorValueError(
                    "Permute", f"expected each of the {spec.rank} dimensions once, got {list(axes)}"
                ) from error
            fail("permute", error, self.inner)

    def movedim(self, src: int | Sequence[int], dst: int | Sequence[int]) -> "Tensor[B, D, K]":
        """Dimensions `src` at the places `dst`, the rest in their order. `[..] -> [..]`.

        Torch: `torch.movedim`.
        """
        spec = self.spec
        try:
            return wrap(spec.ops.movedim(self.inner, src, dst), spec)
        except Exception as error:
            fail("movedim", error, self.inner)

    def flip(self, axes: Sequence[int]) -> "Tensor[B, D, K]":
        """Each of `axes` backwards. `[..] -> [..]`.

        Torch: `torch.flip`.
        """
        spec = self.spec
        try:
            return wrap(spec.ops.flip(self.inner, axes), spec)
        except Exception as error:
            fail("flip", error, self.inner)
