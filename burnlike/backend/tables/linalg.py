"""Norms, products of vectors and matrices, decompositions and determinants."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from .creation import at_least_float32, element_of


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


class TorchLinalgOps:
    """Implements `LinalgOps`. Decompositions of half precision are calculated in float32."""

    diagonal: Any = staticmethod(lambda tensor, /: torch.diagonal(tensor, 0, -2, -1))
    trace: Any = staticmethod(lambda tensor, /: torch.diagonal(tensor, 0, -2, -1).sum(-1, keepdim=True))
    outer: Any = staticmethod(lambda lhs, rhs, dim, /: lhs.unsqueeze(dim + 1) * rhs.unsqueeze(dim))

    @staticmethod
    def lu(tensor: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
        p, l, u = torch.linalg.lu(at_least_float32(tensor))  # noqa: E741
        return p.to(tensor.dtype), l.to(tensor.dtype), u.to(tensor.dtype)

    @staticmethod
    def qr(tensor: Tensor, reduced: bool, /) -> tuple[Tensor, Tensor]:
        q, r = torch.linalg.qr(at_least_float32(tensor), "reduced" if reduced else "complete")
        return q.to(tensor.dtype), r.to(tensor.dtype)

    @staticmethod
    def svd(tensor: Tensor, sweeps: int, /) -> tuple[Tensor, Tensor, Tensor]:
        u, s, vt = torch.linalg.svd(at_least_float32(tensor), full_matrices=False)
        return u.to(tensor.dtype), s.to(tensor.dtype), vt.to(tensor.dtype)

    @staticmethod
    def matvec(matrix: Tensor, vector: Tensor, /) -> Tensor:
        if matrix.dtype.is_floating_point:
            return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)
        return torch.sum(matrix * vector.unsqueeze(-2), -1, dtype=matrix.dtype)

    @staticmethod
    def vector_norm(tensor: Tensor, exponent: float, dims: list[int], /) -> Tensor:
        if dims and tensor.dtype.is_floating_point:
            is_negative = -math.inf < exponent < 0
            if exponent != exponent or (is_negative and not all(tensor.shape[dim] for dim in dims)):  # torch refuses
                return tensor.abs().pow(exponent).sum(dims, True).pow(1 / exponent)
            return torch.linalg.vector_norm(tensor, exponent, dims, True)
        if not dims:
            return (tensor != 0).to(tensor.dtype) if exponent == 0 else _magnitude(tensor)
        if exponent == 0:
            return torch.sum(tensor != 0, dims, True, dtype=tensor.dtype)
        if exponent == 1:
            return torch.sum(_magnitude(tensor), dims, True, dtype=tensor.dtype)
        largest = torch.amax if exponent > 0 else torch.amin
        return largest(_magnitude(tensor), dims, True)

    @staticmethod
    def vector_normalize(tensor: Tensor, exponent: float, dim: int, epsilon: float, /) -> Tensor:
        norms = torch.linalg.vector_norm(tensor, exponent, [dim], True)
        return tensor / norms.clamp_min(element_of(tensor, epsilon))

    @staticmethod
    def cosine_similarity(lhs: Tensor, rhs: Tensor, dim: int, epsilon: float, /) -> Tensor:
        unit_lhs = TorchLinalgOps.vector_normalize(lhs, 2.0, dim, epsilon)
        unit_rhs = TorchLinalgOps.vector_normalize(rhs, 2.0, dim, epsilon)
        return torch.sum(unit_lhs * unit_rhs, dim, True)

    @staticmethod
    def einsum(equation: str, operands: Sequence[Tensor], /) -> Tensor:
        inputs, output = equation.split("->")
        subscripts = inputs.split(",")
        scalars_at_rank_0 = [
            operand if labels else operand.reshape(()) for labels, operand in zip(subscripts, operands, strict=True)
        ]
        if operands[0].dtype.is_floating_point:
            result = torch.einsum(equation, scalars_at_rank_0)
        else:
            result = _einsum_of_integers(subscripts, output, scalars_at_rank_0)
        return result if result.ndim else result.reshape(1)

    @staticmethod
    def det(tensor: Tensor, /) -> Tensor:
        # The derivative is right at singular matrices too, where that of torch.linalg.det is 0.
        matrix = at_least_float32(tensor)
        size = matrix.shape[-1]
        if size == 0 or size > 3:
            result = torch.linalg.det(matrix) if size == 0 else _det_by_lu(matrix)
        elif size == 1:
            result = matrix[..., 0, 0]
        elif size == 2:
            (a, b), (c, d) = (row.unbind(-1) for row in matrix.unbind(-2))
            result = a * d - b * c
        else:
            (a, b, c), (d, e, f), (g, h, i) = (row.unbind(-1) for row in matrix.unbind(-2))
            result = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
        return result.to(tensor.dtype)


def _magnitude(tensor: Tensor) -> Tensor:
    return tensor.abs() if tensor.dtype.is_signed else tensor


def _einsum_of_integers(subscripts: Sequence[str], output: str, operands: Sequence[Tensor]) -> Tensor:
    """Multiply and sum: torch's own einsum needs a product of integer matrices, which CUDA lacks.

    Each operand becomes one with the output's labels first and the summed ones behind, sizes 1 where it lacks one.
    An ellipsis is put first while multiplying, so that its dimensions align at the right.
    """
    labels = [label for label in dict.fromkeys("".join(subscripts)) if label not in "."]
    product = None
    for subscript, operand in zip(subscripts, operands, strict=True):
        used = [label for label in labels if label in subscript]
        aligned = torch.einsum(f"{subscript}->...{''.join(used)}", operand)
        for place, label in enumerate(reversed(labels)):
            if label not in subscript:
                aligned = aligned.unsqueeze(aligned.ndim - place)
        product = aligned if product is None else product * aligned
    assert product is not None
    rank = product.ndim - len(labels)
    summed = [rank + place for place, label in enumerate(labels) if label not in output]
    summed += list(range(rank)) if "..." not in output else []
    if summed:
        product = torch.sum(product, summed, dtype=product.dtype)
    kept = "".join(label for label in labels if label in output)
    ellipsis = "..." if "..." in output else ""
    return torch.einsum(f"{ellipsis}{kept}->{output}", product)


def _det_by_lu(matrix: Tensor) -> Tensor:
    pivots = torch.linalg.lu_factor_ex(matrix.detach())[0].diagonal(0, -2, -1).abs()
    largest = pivots.amax(-1, keepdim=True)
    threshold = largest * (math.sqrt(matrix.shape[-1]) * torch.finfo(matrix.dtype).eps)
    singular = ((pivots <= threshold) & largest.isfinite()).any(-1)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    regular = torch.where(singular[..., None, None], identity, matrix)
    value = torch.where(singular, 0.0, torch.linalg.det(regular))
    if not (torch.is_grad_enabled() and matrix.requires_grad):
        return value
    # The cofactors need a singular value decomposition; a compiled graph can't ask whether they are needed.
    if not torch.compiler.is_compiling() and not bool(singular.any()):
        return value
    # d det(A) / dA is det(U) det(Vt) U C Vt with A = U S Vt, C_i the product of all singular values but s_i.
    u, s, vt = torch.linalg.svd(torch.where(singular[..., None, None], matrix.detach(), identity))
    size = s.shape[-1]
    others = s.unsqueeze(-2).expand(*s.shape, size).masked_fill(torch.eye(size, dtype=torch.bool, device=s.device), 1.0)
    sign = torch.linalg.det(u) * torch.linalg.det(vt)
    cofactors = sign[..., None, None] * (u * others.prod(-1).unsqueeze(-2)) @ vt
    zero_with_slope = ((matrix - matrix.detach()) * cofactors).sum((-2, -1))
    return torch.where(singular, zero_with_slope, value)
