"""Products of matrices and vectors, and Einstein summation: sums of products over labelled dimensions."""

from collections.abc import Sequence
from typing import Any, NoReturn, overload

import torch

from ..._torch_compat.compiler import new
from ...errors import TensorTypeError, TensorValueError
from ..core.base import B2, B, D, K, Numeric, Tensor, TensorBase, derive, like
from ..core.kinds import D1, MAX_RANK, Bool, Float, Int, N
from ..core.operands import computed, fail, tensor_operand


class MatmulMethods(TensorBase[B, D, K]):
    """Products of matrices and of vectors."""

    __slots__ = ()

    def matmul(self: "Numeric[B, D]", other: "Tensor[B, D, K] | torch.Tensor") -> "Tensor[B, D, K]":
        """The product of matrices. `[.., m, k] x [.., k, n] -> [.., m, n]`, batch sizes equal or 1.
        Torch: `torch.matmul`. Differs: equal ranks of 2 or more, no vectors (use `dot`); Int is exact on every device.
        """
        spec = self.spec
        if spec.rank == 1:
            raise TensorValueError(
                "Matmul", "expected matrices of rank 2 or more, got vectors; use dot, or unsqueeze them"
            )
        right: Any = other
        fits = type(right) is spec.tensor and right.spec is spec
        value = right.inner if fits else tensor_operand("matmul", spec, right)
        out = new(spec.tensor)
        try:
            out.inner = inner = spec.ops.matmul(self.inner, value)
        except Exception as error:
            _fail_matmul(error, self.inner, value)
        out.spec = spec if inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
        return out

    __matmul__ = matmul

    def __rmatmul__(self: "Numeric[B, D]", other: "torch.Tensor") -> "Tensor[B, D, K]":
        value = tensor_operand("matmul", self.spec, other)
        return self.spec.tensor(value, self.spec.backend).matmul(self)

    def dot(self: "Numeric[B, D1]", other: "Tensor[B, D1, K] | torch.Tensor") -> "Tensor[B, D1, K]":
        """The sum of products of two vectors. `[n] x [n] -> [1]`. Torch: `torch.dot`. Differs: shape `[1]`."""
        spec = self.spec
        if spec.rank != 1:
            raise TensorValueError("Dot", f"expected vectors of rank 1, got shape {list(self.inner.shape)}; use matmul")
        value = tensor_operand("dot", spec, other)
        if value.shape != self.inner.shape:
            raise TensorValueError(
                "Dot", f"expected vectors of one size, got shapes {list(self.inner.shape)} and {list(value.shape)}"
            )
        return like(computed("dot", spec.ops.dot, self.inner, value), spec)


def _fail_matmul(error: Exception, lhs: torch.Tensor, rhs: torch.Tensor) -> NoReturn:
    """Say which sizes of the operands of a failed product don't fit."""
    shapes = f"shapes {list(lhs.shape)} and {list(rhs.shape)}"
    reasons: list[str] = []
    if lhs.shape[-1] != rhs.shape[-2]:
        reasons.append(
            f"expected the last size of the first and the second last of the second to be equal, got {lhs.shape[-1]}"
            f" and {rhs.shape[-2]} ({shapes}); transpose one?"
        )
    for dim, (left, right) in enumerate(zip(lhs.shape[:-2], rhs.shape[:-2], strict=True)):
        if left != right and 1 not in (left, right):
            reasons.append(
                f"expected batch sizes that are equal or 1, got {left} and {right} in dimension {dim} ({shapes})"
            )
    if reasons:
        raise TensorValueError("Matmul", *reasons) from error
    fail("matmul", error, lhs, rhs)


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

        Torch: `torch.einsum`. Differs: a scalar is `[1]`, as an operand of an empty subscript and as a result.
        Raises TensorValueError: an equation or sizes that don't fit.
        Raises TensorTypeError: no tensor, or operands of different backends, kinds or element types.
        """
        operands = list(operands)
        if not operands:
            raise TensorValueError("Einsum", "at least one operand is required")
        spec = next((operand.spec for operand in operands if isinstance(operand, TensorBase)), None)
        if spec is None:
            raise TensorTypeError("Einsum", f"expected Tensors, got {type(operands[0]).__name__}")
        if spec.kind is Bool:
            raise TensorTypeError("Einsum", "expected Float or Int tensors, got one of kind Bool; use float() or int()")
        inner = [tensor_operand("einsum", spec.ranks[_rank(operand, spec.rank)], operand) for operand in operands]
        explicit = _checked_equation(equation, [tuple(tensor.shape) for tensor in inner])
        return derive(spec.module.einsum(explicit, inner), spec)


def _rank(operand: Any, default: int) -> int:
    rank = operand.spec.rank if isinstance(operand, TensorBase) else getattr(operand, "ndim", 0)
    return rank if 1 <= rank <= MAX_RANK else default


_ELLIPSIS = "..."
_LABELS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def _checked_equation(equation: str, shapes: Sequence[tuple[int, ...]]) -> str:
    """The equation without spaces and with its output written out, after all checks."""
    if not isinstance(equation, str):
        raise TensorTypeError("Einsum", f"expected the equation as a string, got {type(equation).__name__}")
    written, arrow, after = equation.partition("->")
    inputs: list[list[str]] = []
    offset = 0
    for subscript in written.split(","):
        inputs.append(_labels(subscript, offset))
        offset += len(subscript) + 1
    if arrow:
        output = _labels(after, len(written) + 2)
    else:
        every = [label for labels in inputs for label in labels if label != _ELLIPSIS]
        output = [_ELLIPSIS, *sorted(label for label in set(every) if every.count(label) == 1)]
    _check_output(inputs, output)
    if len(shapes) != len(inputs):
        raise TensorValueError(
            "Einsum", f"operand count does not match the equation: {len(inputs)} subscripts, {len(shapes)} operands"
        )
    widths = [_ellipsis_width(number, *pair) for number, pair in enumerate(zip(inputs, shapes, strict=True))]
    _check_sizes(inputs, shapes, widths)
    width = max(widths)
    rank = sum(width if label == _ELLIPSIS else 1 for label in output)
    if rank > MAX_RANK:
        raise TensorValueError("Einsum", f"the result would have rank {rank}, the largest is {MAX_RANK}")
    if not any(_ELLIPSIS in labels for labels in inputs):
        output = [label for label in output if label != _ELLIPSIS]
    return ",".join(map("".join, inputs)) + "->" + "".join(output)


def _labels(subscript: str, offset: int) -> list[str]:
    """The letters and the ellipsis of a subscript that begins at `offset` of the equation."""
    labels: list[str] = []
    place = 0
    while place < len(subscript):
        character = subscript[place]
        if character == ".":
            if _ELLIPSIS in labels:
                raise TensorValueError(
                    "Einsum", f"more than one ellipsis in the same subscript, the second at {offset + place}"
                )
            if not subscript.startswith(_ELLIPSIS, place):
                raise TensorValueError("Einsum", f"dot at {offset + place} is not part of an ellipsis (...)")
            labels.append(_ELLIPSIS)
            place += 2
        elif character in _LABELS:
            labels.append(character)
        elif character != " ":
            raise TensorValueError(
                "Einsum", f"invalid character {character!r} at {offset + place}; subscripts must be in [a-zA-Z]"
            )
        place += 1
    return labels


def _check_output(inputs: list[list[str]], output: list[str]) -> None:
    for place, label in enumerate(output):
        if label == _ELLIPSIS:
            continue
        if not any(label in labels for labels in inputs):
            raise TensorValueError("Einsum", f"output subscript {label} does not appear in any input operand")
        if label in output[:place]:
            raise TensorValueError("Einsum", f"output subscript {label} appears more than once in the output")


def _ellipsis_width(number: int, labels: list[str], shape: tuple[int, ...]) -> int:
    """The number of dimensions that the ellipsis of an operand stands for; 0 without one."""
    if not labels:
        if shape != (1,):
            raise TensorValueError("Einsum", f"scalar operand {number} must have shape [1], got {list(shape)}")
        return 0
    named = len(labels) - (_ELLIPSIS in labels)
    if _ELLIPSIS in labels:
        if len(shape) < named:
            raise TensorValueError(
                "Einsum", f"operand {number} has fewer dimensions than subscripts: {len(shape)} and {named}"
            )
        return len(shape) - named
    if len(shape) != named:
        raise TensorValueError(
            "Einsum", f"rank of operand {number} does not match its subscripts: {len(shape)} and {named}"
        )
    return 0


def _check_sizes(inputs: list[list[str]], shapes: Sequence[tuple[int, ...]], widths: list[int]) -> None:
    """Sizes of a label are equal within an operand; between operands they are equal or 1."""
    shared: dict[object, tuple[int, int]] = {}
    for number, (labels, shape, width) in enumerate(zip(inputs, shapes, widths, strict=True)):
        of_operand: dict[object, int] = {}
        # Dimensions of the ellipsis are named by their place from the right, -1 the last.
        names: list[object] = [it for label in labels for it in (range(-width, 0) if label == _ELLIPSIS else [label])]
        for name, size in zip(names, shape, strict=False):
            if of_operand.setdefault(name, size) != size:
                raise TensorValueError(
                    "Einsum",
                    f"repeated subscripts must have equal dimensions: label '{name}' of operand {number} has the sizes"
                    f" {of_operand[name]} and {size}",
                )
        for name, size in of_operand.items():
            if size == 1:
                continue
            first, other = shared.setdefault(name, (number, size))
            if other != size:
                what = f"label '{name}'" if isinstance(name, str) else f"dimension {name} of the ellipsis"
                raise TensorValueError(
                    "Einsum",
                    f"incompatible broadcast dimensions for {what}: operand {first} has size {other},"
                    f" operand {number} has size {size}",
                )
