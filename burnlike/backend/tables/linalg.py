"""Norms, products of vectors and matrices, decompositions and determinants."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class LinalgOps(Protocol):
    """Linear algebra on Float tensors; where it says so, on Int tensors too, which keep their dtype."""

    def det(self, tensor: Tensor, /) -> Tensor:
        """Determinants, `[.., N, N] -> [..]`; 0 where a pivot is as small as rounding errors."""

    def lu(self, tensor: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
        """P `[.., R, R]`, L `[.., R, k]`, U `[.., k, C]` with P L U = tensor `[.., R, C]`, k = min(R, C)."""

    def qr(self, tensor: Tensor, reduced: bool, /) -> tuple[Tensor, Tensor]:
        """Q `[.., R, k]`, R `[.., k, C]` with Q R = tensor `[.., R, C]`; k = min(R, C) if reduced, else R."""

    def svd(self, tensor: Tensor, sweeps: int, /) -> tuple[Tensor, Tensor, Tensor]:
        """U `[.., R, k]`, S `[.., k]` descending, Vt `[.., k, C]`; at most `sweeps` sweeps if it is iterative."""

    def diagonal(self, tensor: Tensor, /) -> Tensor:
        """The main diagonals, `[.., R, C] -> [.., min(R, C)]`, of any kind."""

    def trace(self, tensor: Tensor, /) -> Tensor:
        """Sums of the main diagonals, `[.., R, C] -> [.., 1]`."""

    def outer(self, lhs: Tensor, rhs: Tensor, dim: int, /) -> Tensor:
        """lhs `[.., M, ..]` times rhs `[.., N, ..]` -> `[.., M, N, ..]`, M and N at `dim` >= 0; Float or Int."""

    def matvec(self, matrix: Tensor, vector: Tensor, /) -> Tensor:
        """`[.., R, C]` times `[.., C]` -> `[.., R]`, Float or Int."""

    def vector_norm(self, tensor: Tensor, exponent: float, dims: list[int], /) -> Tensor:
        """The norm of each vector along `dims`, kept with size 1; no dims: of each element. Int: 0, 1, inf, -inf."""

    def vector_normalize(self, tensor: Tensor, exponent: float, dim: int, epsilon: float, /) -> Tensor:
        """tensor / max(norm along dim, epsilon)."""

    def cosine_similarity(self, lhs: Tensor, rhs: Tensor, dim: int, epsilon: float, /) -> Tensor:
        """The sum along dim, kept with size 1, of both divided by their norms; norms are at least epsilon."""

    def einsum(self, equation: str, operands: Sequence[Tensor], /) -> Tensor:
        """torch.einsum with an explicit output, Float or Int; `[1]` where a subscript or the output is empty."""
