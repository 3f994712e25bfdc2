"""Products of matrices and of vectors."""

from typing import Any, NoReturn

import torch

from ...errors import TensorValueError
from ..core.base import B, D, K, Numeric, Tensor, TensorBase, like
from ..core.kinds import D1
from ..core.operands import computed, fail, tensor_operand


class MatmulMethods(TensorBase[B, D, K]):
    """Products of matrices and of vectors."""

    __slots__ = ()

    def matmul(self: "Numeric[B, D]", other: "Tensor[B, D, K] | torch.Tensor") -> "Tensor[B, D, K]":
        """The product of matrices. `[.., m, k] x [.., k, n] -> [.., m, n]`, batch sizes equal or 1.

        Torch: `torch.matmul`. Differs: equal ranks of 2 or more, no vectors (use `dot`); Int is exact on every device.
        """
        spec = self.spec
        if spec.rank == 1:
            raise TensorValueError(
                "Matmul", "expected matrices of rank 2 or more, got vectors; use dot, or unsqueeze them"
            )
        right: Any = other
        fits = type(right) is spec.tensor and right.spec is spec
        value = right.inner if fits else tensor_operand("matmul", spec, right)
        try:
            return like(spec.ops.matmul(self.inner, value), spec)
        except Exception as error:
            _fail_matmul(error, self.inner, value)

    __matmul__ = matmul

    def __rmatmul__(self: "Numeric[B, D]", other: "torch.Tensor") -> "Tensor[B, D, K]":
        value = tensor_operand("matmul", self.spec, other)
        return self.spec.tensor(value, self.spec.backend).matmul(self)

    def dot(self: "Numeric[B, D1]", other: "Tensor[B, D1, K] | torch.Tensor") -> "Tensor[B, D1, K]":
        """The sum of products of two vectors. `[n] x [n] -> [1]`. Torch: `torch.dot`. Differs: shape `[1]`."""
        spec = self.spec
        if spec.rank != 1:
            raise TensorValueError("Dot", f"expected vectors of rank 1, got shape {list(self.inner.shape)}; use matmul")
        value = tensor_operand("dot", spec, other)
        if value.shape != self.inner.shape:
            raise TensorValueError(
                "Dot", f"expected vectors of one size, got shapes {list(self.inner.shape)} and {list(value.shape)}"
            )
        return like(computed("dot", spec.ops.dot, self.inner, value), spec)


def _fail_matmul(error: Exception, lhs: torch.Tensor, rhs: torch.Tensor) -> NoReturn:
    """Say which sizes of the operands of a failed product don't fit."""
    shapes = f"shapes {list(lhs.shape)} and {list(rhs.shape)}"
    reasons: list[str] = []
    if lhs.shape[-1] != rhs.shape[-2]:
        reasons.append(
            f"expected the last size of the first and the second last of the second to be equal, got {lhs.shape[-1]}"
            f" and {rhs.shape[-2]} ({shapes}); transpose one?"
        )
    for dim, (left, right) in enumerate(zip(lhs.shape[:-2], rhs.shape[:-2], strict=True)):
        if left != right and 1 not in (left, right):
            reasons.append(
                f"expected batch sizes that are equal or 1, got {left} and {right} in dimension {dim} ({shapes})"
            )
    if reasons:
        raise TensorValueError("Matmul", *reasons) from error
    fail("matmul", error, lhs, rhs)
