"""Functions of matrices that torch's parametrizations compute, made of products and sums."""

import math
from typing import Any

import torch
from torch import Tensor

from .tables import Tables, translates

_TERMS = 18
"""Of the series of e^A where the norm of A is at most 1/2: the next one is below 1e-22."""


def matrix_exp(input: Tensor) -> Tensor:
    """e^A by its series for A / 2^s, squared s times (Higham 2005, without its Pade approximants)."""
    size = float(input.detach().abs().sum(-1).max()) if input.numel() else 0.0
    squarings = max(0, math.frexp(size)[1] + 1) if math.isfinite(size) else 0
    scaled = input * 0.5**squarings
    result = unit = torch.eye(input.shape[-1], dtype=input.dtype, device=input.device).expand(input.shape)
    for term in range(_TERMS, 0, -1):
        result = unit + scaled @ result / term
    for _ in range(squarings):
        result = result @ result
    return result


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X of A X = B, or of X A = B, by elimination with the largest pivot of each column."""
    if not left:
        return solve(A.mT, B.mT).mT
    size, is_vector = A.shape[-1], B.ndim == 1 or B.shape == A.shape[:-1]
    right = B[..., None] if is_vector else B
    batch = torch.broadcast_shapes(A.shape[:-2], right.shape[:-2])
    rows = torch.cat([A.expand(*batch, size, size), right.expand(*batch, size, right.shape[-1])], -1)
    places = torch.arange(size, device=A.device).expand(*batch, size)
    for column in range(size):
        largest = rows.detach()[..., column:, column].abs().argmax(-1, keepdim=True) + column
        rows = _swapped(rows, column, largest)
        pivot = rows[..., column, None, :] / rows[..., column, None, column, None]
        others = rows - rows[..., :, column, None] * pivot
        rows = torch.where((places == column)[..., None], pivot, others)
    result = rows[..., size:]
    if not bool(result.detach().isfinite().all()):
        linalg: Any = torch.linalg
        raise linalg.LinAlgError("linalg.solve: the matrix is singular")
    return result[..., 0] if is_vector else result


def _swapped(rows: Tensor, place: int, other: Tensor) -> Tensor:
    """The rows of matrices with the row at `place` and that at `other`, `[.., 1]`, in each other's place."""
    places = torch.arange(rows.shape[-2], device=rows.device)
    order = torch.where(places == other, place, torch.where(places == place, other, places))
    return rows.gather(-2, order[..., None].expand(rows.shape))


def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of the reflections I - tau v v^T, whose v are the columns below the diagonal."""
    rows, columns = input.shape[-2:]
    unit = torch.eye(rows, dtype=input.dtype, device=input.device)
    vectors = input.tril(-1) + unit[:, :columns]
    result = unit.expand(*input.shape[:-2], rows, rows)
    for place in range(tau.shape[-1]):
        vector = vectors[..., place, None]
        result = result - tau[..., place, None, None] * (result @ vector) @ vector.mT
    return result[..., :columns]


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """g v / |v|, of the vectors along all dimensions but `dim`; -1 is of all (Salimans & Kingma 2016, eq. 2)."""
    dims: Any = [it for it in range(v.ndim) if dim == -1 or it != dim % v.ndim]
    return v * (g / (v * v).sum(dims, keepdim=dim != -1).sqrt())


@translates("linalg_matrix_exp")
def linalg_matrix_exp(t: Tables, tensor: Tensor) -> Tensor:
    with t.mode:
        return matrix_exp(tensor)


@translates("linalg_lu_solve")
def linalg_lu_solve(
    t: Tables, LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    with t.mode:
        size = LU.shape[-1]
        matrix = (LU.tril(-1) + torch.eye(size, dtype=LU.dtype, device=LU.device)) @ LU.triu()
        for place in reversed(range(size)):
            matrix = _swapped(matrix, place, pivots[..., place, None].long() - 1)
        return solve(matrix.mT if adjoint else matrix, B, left=left)


@translates("_weight_norm_interface_backward")
def weight_norm_backward(
    t: Tables, grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    with t.mode:
        dims = [it for it in range(v.ndim) if it != dim]
        along = (grad * v).sum(dims, keepdim=True) / norms
        return (grad - v * (along / norms)) * (g / norms), along
