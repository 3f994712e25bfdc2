"""Diagonals of matrices, and products of vectors with vectors and matrices."""

from typing import Any, overload

import torch

from ...errors import TensorValueError
from ..core.axes import axis
from ..core.base import B2, K2, Tensor, derive
from ..core.created import check_rank
from ..core.kinds import D1, D2, D3, D4, D5, D6, D7, D8, Float, N
from ..core.operands import any_spec, computed, float_spec, matrix_spec, numeric_spec, tensor_operand


@overload
def diag(tensor: "Tensor[B2, D2, K2]") -> "Tensor[B2, D1, K2]": ...
@overload
def diag(tensor: "Tensor[B2, D3, K2]") -> "Tensor[B2, D2, K2]": ...
@overload
def diag(tensor: "Tensor[B2, D4, K2]") -> "Tensor[B2, D3, K2]": ...
@overload
def diag(tensor: "Tensor[B2, D5, K2]") -> "Tensor[B2, D4, K2]": ...
@overload
def diag(tensor: "Tensor[B2, D6, K2]") -> "Tensor[B2, D5, K2]": ...
@overload
def diag(tensor: "Tensor[B2, D7, K2]") -> "Tensor[B2, D6, K2]": ...
@overload
def diag(tensor: "Tensor[B2, D8, K2]") -> "Tensor[B2, D7, K2]": ...
def diag(tensor: Any) -> Any:
    """The main diagonals of matrices, of any kind. `[.., R, C] -> [.., min(R, C)]`.

    Torch: `torch.diagonal(x, dim1=-2, dim2=-1)`.
    Differs: never builds a matrix of a vector.
    """
    spec = matrix_spec("Diag", any_spec("diag", tensor))
    return derive(spec.module.diagonal(tensor.inner), spec)


@overload
def trace(tensor: "Tensor[B2, D2, Float]") -> "Tensor[B2, D1, Float]": ...
@overload
def trace(tensor: "Tensor[B2, D3, Float]") -> "Tensor[B2, D2, Float]": ...
@overload
def trace(tensor: "Tensor[B2, D4, Float]") -> "Tensor[B2, D3, Float]": ...
@overload
def trace(tensor: "Tensor[B2, D5, Float]") -> "Tensor[B2, D4, Float]": ...
@overload
def trace(tensor: "Tensor[B2, D6, Float]") -> "Tensor[B2, D5, Float]": ...
@overload
def trace(tensor: "Tensor[B2, D7, Float]") -> "Tensor[B2, D6, Float]": ...
@overload
def trace(tensor: "Tensor[B2, D8, Float]") -> "Tensor[B2, D7, Float]": ...
def trace(tensor: Any) -> Any:
    """The sums of the main diagonals. `[.., R, C] -> [.., 1]`. Torch: `torch.trace`.

    Differs: any number of matrices, which need not be square; the last dimension is kept with size 1.
    """
    spec = matrix_spec("Diag", float_spec("trace", tensor))
    return derive(spec.module.trace(tensor.inner), spec)


@overload
def outer(lhs: "Tensor[B2, D1, N]", rhs: "Tensor[B2, D1, N] | torch.Tensor") -> "Tensor[B2, D2, N]": ...
@overload
def outer(lhs: "Tensor[B2, D2, N]", rhs: "Tensor[B2, D2, N] | torch.Tensor") -> "Tensor[B2, D3, N]": ...
@overload
def outer(lhs: "Tensor[B2, D3, N]", rhs: "Tensor[B2, D3, N] | torch.Tensor") -> "Tensor[B2, D4, N]": ...
@overload
def outer(lhs: "Tensor[B2, D4, N]", rhs: "Tensor[B2, D4, N] | torch.Tensor") -> "Tensor[B2, D5, N]": ...
@overload
def outer(lhs: "Tensor[B2, D5, N]", rhs: "Tensor[B2, D5, N] | torch.Tensor") -> "Tensor[B2, D6, N]": ...
@overload
def outer(lhs: "Tensor[B2, D6, N]", rhs: "Tensor[B2, D6, N] | torch.Tensor") -> "Tensor[B2, D7, N]": ...
@overload
def outer(lhs: "Tensor[B2, D7, N]", rhs: "Tensor[B2, D7, N] | torch.Tensor") -> "Tensor[B2, D8, N]": ...
def outer(lhs: Any, rhs: Any) -> Any:
    """The outer products of vectors. `[.., M] and [.., N] -> [.., M, N]`, the other sizes equal or 1.

    Torch: `torch.outer`.
    Differs: any number of vectors.
    """
    return outer_dim(lhs, rhs, -1)


@overload
def outer_dim(lhs: "Tensor[B2, D1, N]", rhs: "Tensor[B2, D1, N] | torch.Tensor", dim: int) -> "Tensor[B2, D2, N]": ...
@overload
def outer_dim(lhs: "Tensor[B2, D2, N]", rhs: "Tensor[B2, D2, N] | torch.Tensor", dim: int) -> "Tensor[B2, D3, N]": ...
@overload
def outer_dim(lhs: "Tensor[B2, D3, N]", rhs: "Tensor[B2, D3, N] | torch.Tensor", dim: int) -> "Tensor[B2, D4, N]": ...
@overload
def outer_dim(lhs: "Tensor[B2, D4, N]", rhs: "Tensor[B2, D4, N] | torch.Tensor", dim: int) -> "Tensor[B2, D5, N]": ...
@overload
def outer_dim(lhs: "Tensor[B2, D5, N]", rhs: "Tensor[B2, D5, N] | torch.Tensor", dim: int) -> "Tensor[B2, D6, N]": ...
@overload
def outer_dim(lhs: "Tensor[B2, D6, N]", rhs: "Tensor[B2, D6, N] | torch.Tensor", dim: int) -> "Tensor[B2, D7, N]": ...
@overload
def outer_dim(lhs: "Tensor[B2, D7, N]", rhs: "Tensor[B2, D7, N] | torch.Tensor", dim: int) -> "Tensor[B2, D8, N]": ...
def outer_dim(lhs: Any, rhs: Any, dim: int) -> Any:
    """The outer products of vectors along `dim`. `[.., M, ..] and [.., N, ..] -> [.., M, N, ..]`.

    Torch: `x.unsqueeze(dim + 1) * y.unsqueeze(dim)`.
    """
    spec = numeric_spec("outer", lhs)
    check_rank("Outer", spec.rank + 1)
    place = axis("Outer", dim, spec.rank)
    other = tensor_operand("outer", spec, rhs)
    return derive(computed("outer", spec.module.outer, lhs.inner, other, place), spec)


@overload
def matvec(matrix: "Tensor[B2, D2, N]", vector: "Tensor[B2, D1, N] | torch.Tensor") -> "Tensor[B2, D1, N]": ...
@overload
def matvec(matrix: "Tensor[B2, D3, N]", vector: "Tensor[B2, D2, N] | torch.Tensor") -> "Tensor[B2, D2, N]": ...
@overload
def matvec(matrix: "Tensor[B2, D4, N]", vector: "Tensor[B2, D3, N] | torch.Tensor") -> "Tensor[B2, D3, N]": ...
@overload
def matvec(matrix: "Tensor[B2, D5, N]", vector: "Tensor[B2, D4, N] | torch.Tensor") -> "Tensor[B2, D4, N]": ...
@overload
def matvec(matrix: "Tensor[B2, D6, N]", vector: "Tensor[B2, D5, N] | torch.Tensor") -> "Tensor[B2, D5, N]": ...
@overload
def matvec(matrix: "Tensor[B2, D7, N]", vector: "Tensor[B2, D6, N] | torch.Tensor") -> "Tensor[B2, D6, N]": ...
@overload
def matvec(matrix: "Tensor[B2, D8, N]", vector: "Tensor[B2, D7, N] | torch.Tensor") -> "Tensor[B2, D7, N]": ...
def matvec(matrix: Any, vector: Any) -> Any:
    """Matrices times vectors. `[.., R, C] and [.., C] -> [.., R]`, the leading sizes equal or 1.

    Torch: `torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)`.
    Differs: the vector has one rank less than the matrix.
    """
    spec = matrix_spec("Matvec", numeric_spec("matvec", matrix))
    other = tensor_operand("matvec", spec.ranks[spec.rank - 1], vector)
    rows, columns = matrix.inner.shape, other.shape
    if rows[-1] != columns[-1]:
        raise TensorValueError(
            "Matvec", f"Inner dimension mismatch: a matrix of {rows[-1]} columns and a vector of {columns[-1]} entries"
        )
    for of_matrix, of_vector in zip(rows[:-2], columns[:-1], strict=True):
        if of_matrix != of_vector and of_matrix != 1 and of_vector != 1:
            raise TensorValueError(
                "Matvec",
                f"Batch dimensions are not broadcast-compatible: {list(rows[:-2])} of the matrix and"
                f" {list(columns[:-1])} of the vector; sizes are equal or 1",
            )
    return derive(spec.module.matvec(matrix.inner, other), spec)
