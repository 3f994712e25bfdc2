"""Choosing by a mask, and masks of triangles."""

from collections.abc import Sequence
from typing import Any, overload

import torch

from ...errors import TensorValueError
from ..core.base import B2, B, D, K, Tensor, TensorBase, like, wrap
from ..core.kinds import D1, D2, D3, D4, S2, S3, S4, Bool, Float
from ..core.operands import fail, inner_of, scalar, tensor_operand
from ..core.spec import family_of, title


class MaskMethods(TensorBase[B, D, K]):
    """Choosing by a mask, and masks of triangles."""

    __slots__ = ()

    def mask_where(
        self, mask: "Tensor[B, D, Bool] | torch.Tensor", value: "Tensor[B, D, K] | torch.Tensor"
    ) -> "Tensor[B, D, K]":
        """`value` where the mask is set, else this tensor. The three have one rank, and sizes equal or 1.

        Torch: `torch.where(mask, value, x)`.
        Differs: the receiver is what remains where the mask is not set.

        Raises:
            TensorValueError: sizes differ and neither is 1.
        """
        spec, inner = self.spec, self.inner
        where = inner_of("mask_where", mask, spec.bool)
        values = tensor_operand("mask_where", spec, value)
        try:
            return like(spec.ops.mask_where(inner, where, values), spec)
        except Exception as error:
            fail("mask_where", error, inner, where, values)

    def mask_fill(self, mask: "Tensor[B, D, Bool] | torch.Tensor", value: float) -> "Tensor[B, D, K]":
        """`value` where the mask is set, else this tensor. The two have one rank, and sizes equal or 1.

        Torch: `torch.masked_fill`.

        Raises:
            TensorValueError: sizes differ and neither is 1.
        """
        spec, inner = self.spec, self.inner
        where = inner_of("mask_fill", mask, spec.bool)
        if type(value) is not float or spec.kind is not Float:
            value = scalar("mask_fill", spec, value)
        try:
            return wrap(spec.ops.mask_fill(inner, where, value), spec)
        except Exception as error:
            fail("mask_fill", error, inner, where)

    def mask_select(self, mask: "Tensor[B, D, Bool] | torch.Tensor") -> "Tensor[B, D1, K]":
        """`[n]`: the elements where the mask is set, in row order. Waits for the device. Torch: `torch.masked_select`.

        Differs: the mask has exactly the tensor's shape.

        Raises:
            TensorValueError: the shapes differ.
        """
        spec, inner = self.spec, self.inner
        where = inner_of("mask_select", mask, spec.bool)
        if where.shape != inner.shape:
            raise TensorValueError(
                "Mask Select",
                f"the mask has shape {list(where.shape)}, the tensor {list(inner.shape)}; expand the mask first",
            )
        return wrap(spec.ops.mask_select(inner, where), spec.ranks[1])

    async def mask_select_async(self, mask: "Tensor[B, D, Bool] | torch.Tensor") -> "Tensor[B, D1, K]":
        """As `mask_select`. Torch: `torch.masked_select`."""
        return self.mask_select(mask)

    @overload
    @staticmethod
    def triu_mask(shape: S2, offset: int, backend: B2) -> "Tensor[B2, D2, Bool]": ...
    @overload
    @staticmethod
    def triu_mask(shape: S3, offset: int, backend: B2) -> "Tensor[B2, D3, Bool]": ...
    @overload
    @staticmethod
    def triu_mask(shape: S4, offset: int, backend: B2) -> "Tensor[B2, D4, Bool]": ...
    @overload
    @staticmethod
    def triu_mask(shape: Sequence[int], offset: int, backend: B2) -> "Tensor[B2, Any, Bool]": ...
    @staticmethod
    def triu_mask(shape: Sequence[int], offset: int, backend: Any) -> Any:
        """`[1, .., rows, columns]`: set where column - row < offset, OUTSIDE of the upper triangle, for `mask_fill`.

        Torch: `~torch.ones(shape).triu(offset).bool()`.
        Differs: set outside; leading dimensions have size 1.

        Raises:
            TensorValueError: fewer than two dimensions, or more than 8.
        """
        return _triangle("triu_mask", shape, offset, backend)

    @overload
    @staticmethod
    def tril_mask(shape: S2, offset: int, backend: B2) -> "Tensor[B2, D2, Bool]": ...
    @overload
    @staticmethod
    def tril_mask(shape: S3, offset: int, backend: B2) -> "Tensor[B2, D3, Bool]": ...
    @overload
    @staticmethod
    def tril_mask(shape: S4, offset: int, backend: B2) -> "Tensor[B2, D4, Bool]": ...
    @overload
    @staticmethod
    def tril_mask(shape: Sequence[int], offset: int, backend: B2) -> "Tensor[B2, Any, Bool]": ...
    @staticmethod
    def tril_mask(shape: Sequence[int], offset: int, backend: Any) -> Any:
        """`[1, .., rows, columns]`: set where column - row > offset, OUTSIDE of the lower triangle: the causal mask.

        Torch: `~torch.ones(shape).tril(offset).bool()`.
        Differs: set outside; leading dimensions have size 1.

        Raises:
            TensorValueError: fewer than two dimensions, or more than 8.
        """
        return _triangle("tril_mask", shape, offset, backend)

    @overload
    @staticmethod
    def diag_mask(shape: S2, offset: int, backend: B2) -> "Tensor[B2, D2, Bool]": ...
    @overload
    @staticmethod
    def diag_mask(shape: S3, offset: int, backend: B2) -> "Tensor[B2, D3, Bool]": ...
    @overload
    @staticmethod
    def diag_mask(shape: S4, offset: int, backend: B2) -> "Tensor[B2, D4, Bool]": ...
    @overload
    @staticmethod
    def diag_mask(shape: Sequence[int], offset: int, backend: B2) -> "Tensor[B2, Any, Bool]": ...
    @staticmethod
    def diag_mask(shape: Sequence[int], offset: int, backend: Any) -> Any:
        """`[1, .., rows, columns]`: set where column - row is not offset, OUTSIDE of the diagonal.

        Torch: `~torch.eye(rows, columns).bool()`.
        Differs: set outside; leading dimensions have size 1.

        Raises:
            TensorValueError: fewer than two dimensions, or more than 8.
        """
        return _triangle("diag_mask", shape, offset, backend)


def _triangle(name: str, shape: Sequence[int], offset: int, backend: Any) -> Any:
    ranks = family_of(backend)[torch.bool]
    if not 2 <= len(shape) < len(ranks) or min(shape) < 0:
        raise TensorValueError(title(name), f"expected a shape [.., rows, columns] of rank 2 to 8, got {list(shape)}")
    spec = ranks[len(shape)]
    return wrap(getattr(spec.ops, name)(shape, offset, backend.device), spec)
