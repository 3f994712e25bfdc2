"""Determinants whose derivative is right at singular matrices too, where that of `torch.linalg.det` is 0."""

import math

import torch
from torch import Tensor

from .precision import at_least_float32


def det(tensor: Tensor, /) -> Tensor:
    """Determinants of `[.., N, N]`; closed forms up to N = 3."""
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
    cofactors = _cofactors(torch.where(singular[..., None, None], matrix.detach(), identity))
    zero_with_slope = ((matrix - matrix.detach()) * cofactors).sum((-2, -1))
    return torch.where(singular, zero_with_slope, value)


def _cofactors(matrix: Tensor) -> Tensor:
    """d det(A) / dA: with A = U S Vt it is det(U) det(Vt) U C Vt, C_i the product of all singular values but s_i."""
    u, s, vt = torch.linalg.svd(matrix)
    size = s.shape[-1]
    others = s.unsqueeze(-2).expand(*s.shape, size).masked_fill(torch.eye(size, dtype=torch.bool, device=s.device), 1.0)
    sign = torch.linalg.det(u) * torch.linalg.det(vt)
    return sign[..., None, None] * (u * others.prod(-1).unsqueeze(-2)) @ vt
