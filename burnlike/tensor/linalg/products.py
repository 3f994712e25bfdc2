"""Diagonals of matrices, and products of vectors with vectors and matrices."""

import torch

from ...errors import TensorValueError
from ..core.arguments import axis, check_rank
from ..core.base import B2, K2, Above, Below, E, Tensor, derive
from ..core.kinds import Float, N
from ..core.operands import any_spec, computed, float_spec, matrix_spec, numeric_spec, tensor_operand


def diag(tensor: "Above[Tensor[B2, E, K2]]") -> "Tensor[B2, E, K2]":
    """The main diagonals of matrices, of any kind. `[.., R, C] -> [.., min(R, C)]`.
    Torch: `torch.diagonal(x, dim1=-2, dim2=-1)`. Differs: never builds a matrix of a vector.
    """
    spec = matrix_spec("Diag", any_spec("diag", tensor))
    return derive(spec.module.diagonal(tensor.inner), spec)


def trace(tensor: "Above[Tensor[B2, E, Float]]") -> "Tensor[B2, E, Float]":
    """The sums of the main diagonals. `[.., R, C] -> [.., 1]`. Torch: `torch.trace`.
    Differs: any number of matrices, which need not be square; the last dimension is kept with size 1.
    """
    spec = matrix_spec("Diag", float_spec("trace", tensor))
    return derive(spec.module.trace(tensor.inner), spec)


def outer(lhs: "Below[Tensor[B2, E, N]]", rhs: "Below[Tensor[B2, E, N]] | torch.Tensor") -> "Tensor[B2, E, N]":
    """The outer products of vectors. `[.., M] and [.., N] -> [.., M, N]`, the other sizes equal or 1.
    Torch: `torch.outer`. Differs: any number of vectors.
    """
    return outer_dim(lhs, rhs, -1)


def outer_dim(
    lhs: "Below[Tensor[B2, E, N]]", rhs: "Below[Tensor[B2, E, N]] | torch.Tensor", dim: int
) -> "Tensor[B2, E, N]":
    """`[.., M, ..] and [.., N, ..] -> [.., M, N, ..]`, along `dim`.
    Torch: `x.unsqueeze(dim + 1) * y.unsqueeze(dim)`.
    """
    spec = numeric_spec("outer", lhs)
    check_rank("Outer", spec.rank + 1)
    place = axis("Outer", dim, spec.rank)
    other = tensor_operand("outer", spec, rhs)
    return derive(computed("outer", spec.module.outer, lhs.inner, other, place), spec)


def matvec(matrix: "Above[Tensor[B2, E, N]]", vector: "Tensor[B2, E, N] | torch.Tensor") -> "Tensor[B2, E, N]":
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
