"""Norms of vectors. Reduced dimensions are kept with size 1; without dimensions each element is a vector."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import torch

from ...errors import TensorTypeError, TensorValueError, nearest
from ..core.arguments import axis, each_dim
from ..core.base import B2, E, FloatLike, Tensor, like
from ..core.kinds import Float, N
from ..core.operands import computed, float_spec, numeric_spec, tensor_operand
from ..core.spec import title


@dataclass(frozen=True)
class Norm:
    """A norm of vectors: `Norm.L0`, `L1`, `L2`, `LInf`, `LNegInf`, or `Norm.Lp(p)`.

    Attributes:
        exponent: p of (sum |x|^p)^(1/p); 0 counts what is not 0, inf and -inf take the largest and smallest |x|.
    """

    exponent: float

    L0: ClassVar["Norm"]
    L1: ClassVar["Norm"]
    L2: ClassVar["Norm"]
    LInf: ClassVar["Norm"]
    LNegInf: ClassVar["Norm"]

    @classmethod
    def Lp(cls, p: float) -> Self:
        """The norm of exponent p."""
        return cls(float(p))


_NAMED = {"L0": 0.0, "L1": 1.0, "L2": 2.0, "LInf": float("inf"), "LNegInf": float("-inf")}
Norm.L0, Norm.L1, Norm.L2, Norm.LInf, Norm.LNegInf = (Norm(exponent) for exponent in _NAMED.values())

NormLike: TypeAlias = Norm | float | str


def exponent_of(operation: str, norm: NormLike) -> float:
    """The exponent of a norm, of a number, or of a name such as `L2`."""
    if type(norm) is Norm:
        return norm.exponent
    if isinstance(norm, int | float):
        return float(norm)
    if not isinstance(norm, str):
        raise TensorTypeError(operation, f"expected a Norm, a number or a name, got {type(norm).__name__}")
    if norm not in _NAMED:
        hint = nearest(norm, list(_NAMED))
        raise TensorValueError(operation, f"expected one of {list(_NAMED)} or a number as the norm, got {norm!r}{hint}")
    return _NAMED[norm]


def vector_norm(x: "Tensor[B2, E, Float]", norm: NormLike, dim: int) -> "Tensor[B2, E, Float]":
    """The norm along one dimension. `[.., n, ..] -> [.., 1, ..]`.
    Torch: `torch.linalg.vector_norm(x, p, dim, keepdim=True)`.
    Differs: the dimension is required and kept; a Norm, its name or a number says which norm.
    """
    return _norm("vector_norm", x, exponent_of("Vector Norm", norm), [dim])


def vector_norm_dims(x: "Tensor[B2, E, Float]", norm: NormLike, dims: Iterable[int]) -> "Tensor[B2, E, Float]":
    """The norm along several dimensions, as of one vector; no dimensions: of each element.
    Torch: `torch.linalg.vector_norm(x, p, dims, keepdim=True)`. Differs: an empty list reduces nothing.
    """
    return _norm("vector_norm", x, exponent_of("Vector Norm", norm), dims)


def lp_norm(x: "Tensor[B2, E, Float]", p: float, dim: int) -> "Tensor[B2, E, Float]":
    """(sum |x|^p)^(1/p). `[.., n] -> [.., 1]`. Torch: `torch.linalg.vector_norm(x, p, dim, keepdim=True)`."""
    return _norm("lp_norm", x, float(p), [dim])


def lp_norm_dims(x: "Tensor[B2, E, Float]", p: float, dims: Iterable[int]) -> "Tensor[B2, E, Float]":
    """`lp_norm` along `dims`; none: of each element. Torch: `linalg.vector_norm(x, p, dims, keepdim=True)`."""
    return _norm("lp_norm", x, float(p), dims)


def l0_norm(x: "Tensor[B2, E, N]", dim: int) -> "Tensor[B2, E, N]":
    """Nonzero count. `[.., n] -> [.., 1]`. Torch: `linalg.vector_norm(x, 0, dim, keepdim=True)`. Differs: Int too."""
    return _norm("l0_norm", x, 0.0, [dim], of_int=True)


def l0_norm_dims(x: "Tensor[B2, E, N]", dims: Iterable[int]) -> "Tensor[B2, E, N]":
    """`l0_norm` along `dims`; none: of each element. Torch: `linalg.vector_norm(x, 0, dims, keepdim=True)`."""
    return _norm("l0_norm", x, 0.0, dims, of_int=True)


def l1_norm(x: "Tensor[B2, E, N]", dim: int) -> "Tensor[B2, E, N]":
    """The sum of |x|. `[.., n] -> [.., 1]`. Torch: `linalg.vector_norm(x, 1, dim, keepdim=True)`. Differs: Int too."""
    return _norm("l1_norm", x, 1.0, [dim], of_int=True)


def l1_norm_dims(x: "Tensor[B2, E, N]", dims: Iterable[int]) -> "Tensor[B2, E, N]":
    """`l1_norm` along `dims`; none: of each element. Torch: `linalg.vector_norm(x, 1, dims, keepdim=True)`."""
    return _norm("l1_norm", x, 1.0, dims, of_int=True)


def l2_norm(x: "Tensor[B2, E, Float]", dim: int) -> "Tensor[B2, E, Float]":
    """sqrt(sum x^2), derivative 0 at 0. `[.., n] -> [.., 1]`. Torch: `linalg.vector_norm(x, 2, dim, keepdim=True)`."""
    return _norm("l2_norm", x, 2.0, [dim])


def l2_norm_dims(x: "Tensor[B2, E, Float]", dims: Iterable[int]) -> "Tensor[B2, E, Float]":
    """`l2_norm` along `dims`; none: of each element. Torch: `linalg.vector_norm(x, 2, dims, keepdim=True)`."""
    return _norm("l2_norm", x, 2.0, dims)


def max_abs_norm(x: "Tensor[B2, E, N]", dim: int) -> "Tensor[B2, E, N]":
    """Largest |x|. `[.., n] -> [.., 1]`. Torch: `linalg.vector_norm(x, inf, dim, keepdim=True)`. Differs: Int too."""
    return _norm("max_abs_norm", x, float("inf"), [dim], of_int=True)


def max_abs_norm_dims(x: "Tensor[B2, E, N]", dims: Iterable[int]) -> "Tensor[B2, E, N]":
    """`max_abs_norm` along `dims`; none: of each element. Torch: `linalg.vector_norm(x, inf, dims, keepdim=True)`."""
    return _norm("max_abs_norm", x, float("inf"), dims, of_int=True)


def min_abs_norm(x: "Tensor[B2, E, N]", dim: int) -> "Tensor[B2, E, N]":
    """Least |x|. `[.., n] -> [.., 1]`. Torch: `linalg.vector_norm(x, -inf, dim, keepdim=True)`. Differs: Int too."""
    return _norm("min_abs_norm", x, float("-inf"), [dim], of_int=True)


def min_abs_norm_dims(x: "Tensor[B2, E, N]", dims: Iterable[int]) -> "Tensor[B2, E, N]":
    """`min_abs_norm` along `dims`; none: of each element. Torch: `linalg.vector_norm(x, -inf, dims, keepdim=True)`."""
    return _norm("min_abs_norm", x, float("-inf"), dims, of_int=True)


def vector_normalize(x: "Tensor[B2, E, Float]", norm: NormLike, dim: int, eps: float) -> "Tensor[B2, E, Float]":
    """Each vector along `dim` divided by its norm, or by `eps` if that is larger. `[..] -> [..]`.
    Torch: `F.normalize(x, p, dim, eps)`. Differs: no defaults.
    """
    spec = float_spec("vector_normalize", x)
    exponent = exponent_of("Vector Normalize", norm)
    place = axis("Vector Normalize", dim, spec.rank)
    return like(computed("vector_normalize", spec.module.vector_normalize, x.inner, exponent, place, float(eps)), spec)


def cosine_similarity(
    x1: "Tensor[B2, E, Float]", x2: "FloatLike[B2, E]", dim: int, eps: float | None = None
) -> "Tensor[B2, E, Float]":
    """The cosine of the angle between vectors along `dim`; norms are at least `eps`. `[.., n, ..] -> [.., 1, ..]`.
    Torch: `F.cosine_similarity(x1, x2, dim, eps)`.
    Differs: the dimension is kept; `eps` is the dtype's smallest normal number unless given.
    """
    spec = float_spec("cosine_similarity", x1)
    other = tensor_operand("cosine_similarity", spec, x2)
    place = axis("Cosine Similarity", dim, spec.rank)
    epsilon = torch.finfo(spec.dtype).tiny if eps is None else float(eps)
    return like(computed("cosine_similarity", spec.module.cosine_similarity, x1.inner, other, place, epsilon), spec)


def _norm(name: str, x: Any, exponent: float, dims: Iterable[int], *, of_int: bool = False) -> Any:
    spec = numeric_spec(name, x) if of_int else float_spec(name, x)
    places = each_dim(title(name), dims, spec.rank)
    return like(computed(name, spec.module.vector_norm, x.inner, exponent, places), spec)
