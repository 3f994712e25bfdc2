"""Diagonals, products, decompositions and determinants of matrices."""

from typing import Any, Protocol

import torch
from typing_extensions import TypeVar

from ...errors import TensorTypeError, TensorValueError
from ..core.arguments import axis, check_rank
from ..core.base import B2, K2, Above, Below, E, T_co, Tensor, derive
from ..core.kinds import Float, N
from ..core.operands import any_spec, computed, float_spec, matrix_spec, numeric_spec, tensor_operand
from ..core.spec import Spec

S = TypeVar("S", covariant=True)


class _Matrices(Above[T_co], Protocol[S, T_co]):
    def _same(self) -> S: ...


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


def det(tensor: "Above[Above[Tensor[B2, E, Float]]]") -> "Tensor[B2, E, Float]":
    """The determinants of square matrices. `[.., N, N] -> [..]`. Torch: `torch.linalg.det`.

    A pivot not above rounding errors makes it exactly 0. The derivative is right at singular matrices too.

    Differs: rank 3 at least, as there is no rank 0; half precision is calculated in float32.
    """
    spec = float_spec("det", tensor)
    shape = tensor.inner.shape
    if spec.rank < 3:
        raise TensorValueError(
            "Det",
            f"The input tensor must have at least 3 dimensions, [.., N, N], got {spec.rank};"
            " use unsqueeze(rank=3) for one matrix",
        )
    if shape[-1] != shape[-2]:
        raise TensorValueError(
            "Det", f"The last two dimensions of the input tensor must be equal, got {shape[-2]} and {shape[-1]}"
        )
    return derive(spec.module.det(tensor.inner), spec)


def lu(tensor: "Tensor[B2, E, Float]") -> "tuple[Tensor[B2, E, Float], Tensor[B2, E, Float], Tensor[B2, E, Float]]":
    """P, L, U with P L U = tensor, by partial pivoting. `[.., R, C] -> [.., R, R], [.., R, k], [.., k, C]`.

    k = min(R, C); P permutes rows, L has ones in its diagonal.

    Torch: `torch.linalg.lu`. Differs: half precision is calculated in float32.
    """
    spec = matrix_spec("Lu", float_spec("lu", tensor))
    return _each(spec.module.lu(tensor.inner), spec)


def qr(tensor: "Tensor[B2, E, Float]", reduced: bool) -> "tuple[Tensor[B2, E, Float], Tensor[B2, E, Float]]":
    """Q, R with Q R = tensor, Q orthonormal, R upper triangular. `[.., R, C] -> [.., R, k], [.., k, C]`.

    k = min(R, C) if `reduced`, else R.

    Torch: `torch.linalg.qr(x, mode)`. Differs: a flag instead of a mode; half precision is calculated in float32.
    """
    spec = matrix_spec("Qr", float_spec("qr", tensor))
    return _each(spec.module.qr(tensor.inner, bool(reduced)), spec)


def svd(tensor: "_Matrices[S, Tensor[B2, E, Float]]", sweeps: int) -> "tuple[S, Tensor[B2, E, Float], S]":
    """U, S, Vt with U diag(S) Vt = tensor, S descending. `[.., R, C] -> [.., R, k], [.., k], [.., k, C]`.

    k = min(R, C); U has orthonormal columns and Vt orthonormal rows.

    Torch: `torch.linalg.svd(x, full_matrices=False)`.
    Differs: no derivative; `sweeps`, 1 at least, limits backends that iterate, which torch's does on its own.
    Raises TensorTypeError: the tensor is tracked.
    """
    spec = matrix_spec("Svd", float_spec("svd", tensor))
    if tensor.inner.requires_grad:
        raise TensorTypeError("Svd", "gradients are not implemented; detach() the input tensor first")
    if sweeps < 1:
        raise TensorValueError("Svd", f"sweeps must be greater than zero, got {sweeps}")
    try:
        return _each(spec.module.svd(tensor.inner, int(sweeps)), spec)
    except torch.linalg.LinAlgError as error:  # pyright: ignore[reportPrivateImportUsage]
        raise TensorValueError(
            "Svd", f"found no decomposition; are all elements finite? {str(error).splitlines()[0]}"
        ) from error


def _each(results: Any, spec: Spec) -> Any:
    return tuple(derive(inner, spec) for inner in results)
