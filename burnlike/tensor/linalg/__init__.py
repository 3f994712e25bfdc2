"""Linear algebra on typed tensors: products of vectors, norms, decompositions, determinants."""

from .matrices import (
    det as det,
    diag as diag,
    lu as lu,
    matvec as matvec,
    outer as outer,
    outer_dim as outer_dim,
    qr as qr,
    svd as svd,
    trace as trace,
)
from .norms import (
    Norm as Norm,
    cosine_similarity as cosine_similarity,
    l0_norm as l0_norm,
    l0_norm_dims as l0_norm_dims,
    l1_norm as l1_norm,
    l1_norm_dims as l1_norm_dims,
    l2_norm as l2_norm,
    l2_norm_dims as l2_norm_dims,
    lp_norm as lp_norm,
    lp_norm_dims as lp_norm_dims,
    max_abs_norm as max_abs_norm,
    max_abs_norm_dims as max_abs_norm_dims,
    min_abs_norm as min_abs_norm,
    min_abs_norm_dims as min_abs_norm_dims,
    vector_norm as vector_norm,
    vector_norm_dims as vector_norm_dims,
    vector_normalize as vector_normalize,
)
