"""Linear algebra on typed tensors: products of vectors, norms, decompositions, determinants."""

from .decompositions import det, lu, qr, svd
from .norms import (
    cosine_similarity,
    l0_norm,
    l0_norm_dims,
    l1_norm,
    l1_norm_dims,
    l2_norm,
    l2_norm_dims,
    lp_norm,
    lp_norm_dims,
    max_abs_norm,
    max_abs_norm_dims,
    min_abs_norm,
    min_abs_norm_dims,
    vector_norm,
    vector_norm_dims,
    vector_normalize,
)
from .operands import Norm
from .products import diag, matvec, outer, outer_dim, trace

__all__ = [
    "Norm",
    "cosine_similarity",
    "det",
    "diag",
    "l0_norm",
    "l0_norm_dims",
    "l1_norm",
    "l1_norm_dims",
    "l2_norm",
    "l2_norm_dims",
    "lp_norm",
    "lp_norm_dims",
    "lu",
    "matvec",
    "max_abs_norm",
    "max_abs_norm_dims",
    "min_abs_norm",
    "min_abs_norm_dims",
    "outer",
    "outer_dim",
    "qr",
    "svd",
    "trace",
    "vector_norm",
    "vector_norm_dims",
    "vector_normalize",
]
