"""Decompositions and determinants of matrices."""

from typing import Any, Protocol

import torch
from typing_extensions import TypeVar

from ...errors import TensorTypeError, TensorValueError
from ..core.base import B2, Above, E, T_co, Tensor, derive
from ..core.kinds import Float
from ..core.operands import float_spec, matrix_spec
from ..core.spec import Spec

S = TypeVar("S", covariant=True)


class _Matrices(Above[T_co], Protocol[S, T_co]):
    def _same(self) -> S: ...


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
