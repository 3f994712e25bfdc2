"""Operands of the linear algebra functions: their kinds, their ranks, and the norm."""

from dataclasses import dataclass
from typing import ClassVar, Self, TypeAlias

from ...errors import TensorTypeError, TensorValueError, nearest
from ..core.spec import Spec


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
    """The exponent of a norm, of a number, or of a name such as `L2`.

    Raises:
        TensorValueError: an unknown name.
        TensorTypeError: none of these.
    """
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


def matrix_spec(operation: str, spec: Spec) -> Spec:
    """The Spec, after checking that its last two dimensions are those of matrices.

    Raises:
        TensorValueError: rank 1.
    """
    if spec.rank < 2:
        raise TensorValueError(operation, f"expected a tensor with at least 2 dimensions, [.., R, C], got {spec.rank}")
    return spec
