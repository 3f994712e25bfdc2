"""Norms, products of vectors and matrices, decompositions and determinants."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class LinalgOps(Protocol):
    """Linear algebra on Float tensors; where it says so, on Int tensors too, which keep their dtype.

    Functions:
        det: Determinants, `[.., N, N] -> [..]`; 0 where a pivot is as small as rounding errors.
        lu: P `[.., R, R]`, L `[.., R, k]`, U `[.., k, C]` with P L U = tensor `[.., R, C]`, k = min(R, C).
        qr: Q `[.., R, k]`, R `[.., k, C]` with Q R = tensor `[.., R, C]`; k = min(R, C) if reduced, else R.
        svd: U `[.., R, k]`, S `[.., k]` descending, Vt `[.., k, C]`; at most `sweeps` sweeps if it is iterative.
        diagonal: The main diagonals, `[.., R, C] -> [.., min(R, C)]`, of any kind.
        trace: Sums of the main diagonals, `[.., R, C] -> [.., 1]`.
        outer: lhs `[.., M, ..]` times rhs `[.., N, ..]` -> `[.., M, N, ..]`, M and N at `dim` >= 0; Float or Int.
        matvec: `[.., R, C]` times `[.., C]` -> `[.., R]`, Float or Int.
        vector_norm: The norm of each vector along `dims`, kept with size 1; no dims: of each element. Int: 0, 1, inf,
            -inf.
        vector_normalize: tensor / max(norm along dim, epsilon).
        cosine_similarity: The sum along dim, kept with size 1, of both divided by their norms; norms are at least
            epsilon.
        einsum: torch.einsum with an explicit output, Float or Int; `[1]` where a subscript or the output is empty.
    """

    def det(self, tensor: Tensor, /) -> Tensor: ...
    def lu(self, tensor: Tensor, /) -> tuple[Tensor, Tensor, Tensor]: ...
    def qr(self, tensor: Tensor, reduced: bool, /) -> tuple[Tensor, Tensor]: ...
    def svd(self, tensor: Tensor, sweeps: int, /) -> tuple[Tensor, Tensor, Tensor]: ...
    def diagonal(self, tensor: Tensor, /) -> Tensor: ...
    def trace(self, tensor: Tensor, /) -> Tensor: ...
    def outer(self, lhs: Tensor, rhs: Tensor, dim: int, /) -> Tensor: ...
    def matvec(self, matrix: Tensor, vector: Tensor, /) -> Tensor: ...
    def vector_norm(self, tensor: Tensor, exponent: float, dims: list[int], /) -> Tensor: ...
    def vector_normalize(self, tensor: Tensor, exponent: float, dim: int, epsilon: float, /) -> Tensor: ...
    def cosine_similarity(self, lhs: Tensor, rhs: Tensor, dim: int, epsilon: float, /) -> Tensor: ...
    def einsum(self, equation: str, operands: Sequence[Tensor], /) -> Tensor: ...
