"""One-hot codes."""

from typing import Any, overload

import torch

from ...errors import TensorValueError
from ..core.axes import axis
from ..core.base import B, D, K, Numeric, Tensor, TensorBase, wrap
from ..core.kinds import D1, D2, D3, D4, D5, D6, D7, D8, MAX_RANK
from ..core.operands import fail, scalar


class OneHotMethods(TensorBase[B, D, K]):
    """One-hot codes."""

    __slots__ = ()

    @overload
    def one_hot(self: "Numeric[B, D1]", num_classes: int) -> "Tensor[B, D2, K]": ...
    @overload
    def one_hot(self: "Numeric[B, D2]", num_classes: int) -> "Tensor[B, D3, K]": ...
    @overload
    def one_hot(self: "Numeric[B, D3]", num_classes: int) -> "Tensor[B, D4, K]": ...
    @overload
    def one_hot(self: "Numeric[B, D4]", num_classes: int) -> "Tensor[B, D5, K]": ...
    @overload
    def one_hot(self: "Numeric[B, D5]", num_classes: int) -> "Tensor[B, D6, K]": ...
    @overload
    def one_hot(self: "Numeric[B, D6]", num_classes: int) -> "Tensor[B, D7, K]": ...
    @overload
    def one_hot(self: "Numeric[B, D7]", num_classes: int) -> "Tensor[B, D8, K]": ...
    def one_hot(self: Any, num_classes: int) -> Any:
        """1 at the class that each element names, 0 elsewhere, in the tensor's kind. `[..] -> [.., num_classes]`.

        Torch: `torch.nn.functional.one_hot`.
        Differs: keeps the dtype; negative elements count from the last class. Waits for the device.

        Args:
            num_classes: 2 or more.

        Raises:
            TensorValueError: fewer classes, or an element that names none.
        """
        return _one_hot("One Hot", self, num_classes, 1, 0, -1)

    @overload
    def one_hot_fill(
        self: "Numeric[B, D1]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B, D2, K]": ...
    @overload
    def one_hot_fill(
        self: "Numeric[B, D2]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B, D3, K]": ...
    @overload
    def one_hot_fill(
        self: "Numeric[B, D3]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B, D4, K]": ...
    @overload
    def one_hot_fill(
        self: "Numeric[B, D4]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B, D5, K]": ...
    @overload
    def one_hot_fill(
        self: "Numeric[B, D5]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B, D6, K]": ...
    @overload
    def one_hot_fill(
        self: "Numeric[B, D6]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B, D7, K]": ...
    @overload
    def one_hot_fill(
        self: "Numeric[B, D7]", num_classes: int, on_value: float, off_value: float, axis: int
    ) -> "Tensor[B, D8, K]": ...
    def one_hot_fill(self: Any, num_classes: int, on_value: float, off_value: float, axis: int) -> Any:
        """`on_value` at the class that each element names, `off_value` elsewhere, in a new dimension of that size.

        Torch: none; OneHot of ONNX. Waits for the device.

        Args:
            num_classes: 2 or more.
            on_value: converted to the tensor's dtype, as `off_value`.
            off_value: of all other classes.
            axis: where the new dimension is in the result, -rank-1 .. rank.

        Raises:
            TensorValueError: fewer classes, an element that names none, or no such axis.
        """
        return _one_hot("One Hot Fill", self, num_classes, on_value, off_value, axis)


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
