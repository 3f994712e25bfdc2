"""Choosing by a mask, masks of triangles, and one-hot codes."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, overload

import torch

from ...errors import TensorValueError
from ..core.arguments import axis
from ..core.base import B2, B, Below, D, E, K, Tensor, TensorBase, like, wrap
from ..core.kinds import D1, D2, D3, D4, MAX_RANK, S2, S3, S4, Bool, Float, Int
from ..core.operands import fail, inner_of, scalar, tensor_operand
from ..core.spec import family_of, title


class _MasksShape(Protocol):
    @overload
    def __call__(self, shape: S2, offset: int, backend: B2) -> "Tensor[B2, D2, Bool]": ...
    @overload
    def __call__(self, shape: S3, offset: int, backend: B2) -> "Tensor[B2, D3, Bool]": ...
    @overload
    def __call__(self, shape: S4, offset: int, backend: B2) -> "Tensor[B2, D4, Bool]": ...
    @overload
    def __call__(self, shape: Sequence[int], offset: int, backend: B2) -> "Tensor[B2, Any, Bool]": ...


def _masks_shape(function: Callable[..., Any]) -> _MasksShape:
    return cast(_MasksShape, staticmethod(function))


class MaskMethods(TensorBase[B, D, K]):
    """Choosing by a mask, masks of triangles, and one-hot codes."""

    __slots__ = ()

    def mask_where(
        self, mask: "Tensor[B, D, Bool] | torch.Tensor", value: "Tensor[B, D, K] | torch.Tensor"
    ) -> "Tensor[B, D, K]":
        """`value` where the mask is set, else this tensor. The three have one rank, and sizes equal or 1.
        Torch: `torch.where(mask, value, x)`. Differs: the receiver is what remains where the mask is not set.
        """
        spec, inner = self.spec, self.inner
        mask_tensor: Any = mask
        fits = type(mask_tensor) is spec.tensor and mask_tensor.spec is spec.bool
        where = mask_tensor.inner if fits else inner_of("mask_where", mask_tensor, spec.bool)
        other: Any = value
        fits = type(other) is spec.tensor and other.spec is spec
        values = other.inner if fits else tensor_operand("mask_where", spec, other)
        try:
            return (wrap if fits else like)(spec.ops.mask_where(inner, where, values), spec)
        except Exception as error:
            fail("mask_where", error, inner, where, values)

    def mask_fill(self, mask: "Tensor[B, D, Bool] | torch.Tensor", value: float) -> "Tensor[B, D, K]":
        """`value` where the mask is set, else this tensor. Equal ranks, sizes equal or 1.
        Torch: `torch.masked_fill`.
        """
        spec, inner = self.spec, self.inner
        mask_tensor: Any = mask
        fits = type(mask_tensor) is spec.tensor and mask_tensor.spec is spec.bool
        where = mask_tensor.inner if fits else inner_of("mask_fill", mask_tensor, spec.bool)
        if type(value) is not float or spec.kind is not Float:
            value = scalar("mask_fill", spec, value)
        try:
            return wrap(spec.ops.mask_fill(inner, where, value), spec)
        except Exception as error:
            fail("mask_fill", error, inner, where)

    def mask_select(self, mask: "Tensor[B, D, Bool] | torch.Tensor") -> "Tensor[B, D1, K]":
        """`[n]`: the elements where the mask is set, in row order. Waits for the device. Torch: `torch.masked_select`.
        Differs: the mask has exactly the tensor's shape.
        """
        spec, inner = self.spec, self.inner
        where = inner_of("mask_select", mask, spec.bool)
        if where.shape != inner.shape:
            raise TensorValueError(
                "Mask Select",
                f"the mask has shape {list(where.shape)}, the tensor {list(inner.shape)}; expand the mask first",
            )
        return wrap(spec.ops.mask_select(inner, where), spec.ranks[1])

    async def mask_select_async(self, mask: "Tensor[B, D, Bool] | torch.Tensor") -> "Tensor[B, D1, K]":
        """As `mask_select`. Torch: `torch.masked_select`."""
        return self.mask_select(mask)

    @_masks_shape
    def triu_mask(shape: Any, offset: int, backend: Any) -> "Tensor[Any, Any, Bool]":
        """`[1, .., rows, columns]`: set where column - row < offset, OUTSIDE of the upper triangle, for `mask_fill`.
        Torch: `~torch.ones(shape).triu(offset).bool()`. Differs: set outside; leading dimensions have size 1.
        Raises TensorValueError: fewer than two dimensions, or more than 8.
        """
        return _triangle("triu_mask", shape, offset, backend)

    @_masks_shape
    def tril_mask(shape: Any, offset: int, backend: Any) -> "Tensor[Any, Any, Bool]":
        """`[1, .., rows, columns]`: set where column - row > offset, OUTSIDE of the lower triangle: the causal mask.
        Torch: `~torch.ones(shape).tril(offset).bool()`. Differs: set outside; leading dimensions have size 1.
        Raises TensorValueError: fewer than two dimensions, or more than 8.
        """
        return _triangle("tril_mask", shape, offset, backend)

    @_masks_shape
    def diag_mask(shape: Any, offset: int, backend: Any) -> "Tensor[Any, Any, Bool]":
        """`[1, .., rows, columns]`: set where column - row is not offset, OUTSIDE of the diagonal.
        Torch: `~torch.eye(rows, columns).bool()`. Differs: set outside; leading dimensions have size 1.
        Raises TensorValueError: fewer than two dimensions, or more than 8.
        """
        return _triangle("diag_mask", shape, offset, backend)

    @overload
    def one_hot(self: "Below[Tensor[B2, E, Float]]", num_classes: int) -> "Tensor[B2, E, Float]": ...
    @overload
    def one_hot(self: "Below[Tensor[B2, E, Int]]", num_classes: int) -> "Tensor[B2, E, Int]": ...
    def one_hot(self: Any, num_classes: int) -> Any:
        """1 at the class that each element names, 0 elsewhere, in the tensor's kind. `[..] -> [.., num_classes]`.
        Torch: `torch.nn.functional.one_hot`.
        Differs: keeps the dtype; negative elements count from the last class. Waits for the device.
        Raises TensorValueError: fewer than 2 classes, or an element that names none.
        """
        return _one_hot("One Hot", self, num_classes, 1, 0, -1)

    @overload
    def one_hot_fill(
        self: "Below[Tensor[B2, E, Float]]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B2, E, Float]": ...
    @overload
    def one_hot_fill(
        self: "Below[Tensor[B2, E, Int]]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B2, E, Int]": ...
    def one_hot_fill(self: Any, num_classes: int, on_value: float, off_value: float, axis: int) -> Any:
        """`on_value` at the class that each element names, else `off_value`, along the new dimension `axis`.
        Torch: none; OneHot of ONNX. Waits for the device.
        Raises TensorValueError: fewer than 2 classes, an element that names none, or no such axis.
        """
        return _one_hot("One Hot Fill", self, num_classes, on_value, off_value, axis)


def _triangle(name: str, shape: Sequence[int], offset: int, backend: Any) -> Any:
    ranks = family_of(backend)[torch.bool]
    if not 2 <= len(shape) < len(ranks) or min(shape) < 0:
        raise TensorValueError(title(name), f"expected a shape [.., rows, columns] of rank 2 to 8, got {list(shape)}")
    spec = ranks[len(shape)]
    return wrap(getattr(spec.ops, name)(shape, offset, backend.device), spec)


def _one_hot(operation: str, tensor: Any, classes: int, on: float, off: float, dim: int) -> Any:
    spec, inner = tensor.spec, tensor.inner
    function, bounds = spec.ops.one_hot, spec.ops.bounds
    dim = axis(operation, dim, spec.rank + 1)
    if classes < 2:
        raise TensorValueError(operation, f"expected at least 2 classes, got {classes}")
    if spec.rank == MAX_RANK:
        raise TensorValueError(operation, f"a tensor of rank {MAX_RANK} can't get one more dimension")
    if inner.numel() and not torch.compiler.is_compiling():  # compiled code leaves the check to torch's scatter
        smallest, largest = bounds(inner)
        if not -classes <= smallest <= largest < classes:
            raise TensorValueError(
                operation, f"elements lie in {smallest}..{largest}; {classes} classes have -{classes}..{classes - 1}"
            )
    on, off = scalar("one_hot", spec, on), scalar("one_hot", spec, off)
    try:
        return wrap(function(inner, classes, on, off, dim), spec.ranks[spec.rank + 1])
    except Exception as error:
        fail("one_hot", error, inner)
