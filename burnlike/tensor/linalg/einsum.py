"""Einstein summation: sums of products over labelled dimensions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from ...errors import TensorTypeError, TensorValueError
from ..core.base import B2, B, D, K, TensorBase, derive
from ..core.kinds import MAX_RANK, Bool, Float, Int, N
from ..core.tensor_operands import tensor_operand
from .einsum_equation import checked_equation

if TYPE_CHECKING:
    from ..tensor import Tensor


class EinsumMethods(TensorBase[B, D, K]):
    """Einstein summation."""

    __slots__ = ()

    @overload
    @staticmethod
    def einsum(equation: str, operands: "Sequence[Tensor[B2, Any, N]]") -> "Tensor[B2, Any, N]": ...
    # mypy finds no common type of a list of tensors of different ranks; it gets by with these.
    @overload
    @staticmethod
    def einsum(equation: str, operands: "Sequence[Tensor[Any, Any, Float]]") -> "Tensor[Any, Any, Float]": ...
    @overload
    @staticmethod
    def einsum(equation: str, operands: "Sequence[Tensor[Any, Any, Int]]") -> "Tensor[Any, Any, Int]": ...
    @staticmethod
    def einsum(equation: str, operands: Any) -> Any:
        """The sum of products that the equation tells, as `ij,jk->ik` for matrices. Float or Int.

        Letters label dimensions, `...` stands for any number of them. Without `->` the result has the dimensions of
        `...` and then the labels that occur once, A to Z before a to z. A label that the result lacks is summed over;
        one that an operand has twice is its diagonal. Sizes of one label are equal, or 1 in some operands.

        Torch: `torch.einsum`.
        Differs: a scalar is `[1]`, as an operand of an empty subscript and as a result.

        Raises:
            TensorValueError: an equation or sizes that don't fit.
            TensorTypeError: no tensor, or operands of different backends, kinds or element types.
        """
        operands = list(operands)
        if not operands:
            raise TensorValueError("Einsum", "at least one operand is required")
        spec = next((it.spec for it in operands if isinstance(it, TensorBase)), None)
        if spec is None:
            raise TensorTypeError("Einsum", f"expected Tensors, got {type(operands[0]).__name__}")
        if spec.kind is Bool:
            raise TensorTypeError("Einsum", "expected Float or Int tensors, got one of kind Bool; use float() or int()")
        inner = [tensor_operand("einsum", spec.ranks[_rank(it, spec.rank)], it) for it in operands]
        explicit = checked_equation(equation, [tuple(it.shape) for it in inner])
        return derive(spec.module.einsum(explicit, inner), spec)


def _rank(operand: Any, default: int) -> int:
    rank = operand.spec.rank if isinstance(operand, TensorBase) else getattr(operand, "ndim", 0)
    return rank if 1 <= rank <= MAX_RANK else default
