"""The inputs of losses: checks, and reductions."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..._torch_compat.transforms import readable
from ...config import ModuleConfig
from ...errors import ArgumentError, DTypeError, TargetError
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import GivesLoss
from ..layer import expect_shape, shape_error
from ..torch_counterpart import Counterpart, alike
from .configs import Reduction


def expect_equal_shapes(layer: object, x: Tensor, other: Tensor, name: str = "targets") -> None:
    """Raise ShapeError if `other`, called `name`, does not have the shape of `x`."""
    if other.shape != x.shape:
        raise shape_error(layer, str(list(x.shape)), list(other.shape), name=name)


def expect_integers(layer: object, tensor: Tensor, name: str = "targets") -> None:
    """Raise DTypeError if `tensor`, called `name`, does not hold integers."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise DTypeError(f"{type(layer).__name__}: {name}: expected integers, got {tensor.dtype}")


def expect_rows(layer: object, x: Tensor, targets: Tensor, classes: int | None = None, name: str = "targets") -> Tensor:
    """`targets` as int64; ShapeError or DTypeError if not `[batch]` integers beside `x`, `[batch, classes]`."""
    shape, length = x.shape, targets.shape
    if len(shape) != 2 or len(length) != 1 or shape[0] != length[0] or classes not in (None, shape[1]):
        expect_shape(layer, x, "batch", "classes" if classes is None else classes)
        expect_shape(layer, targets, shape[0], name=name)
    if targets.dtype == torch.int64:
        return targets
    expect_integers(layer, targets, name)
    return targets.long()


def expect_range(layer: object, values: Tensor, low: int, high: int, name: str = "targets") -> None:
    """Raise TargetError if a value of `values` is not in low..high; nothing is checked on devices and in graphs."""
    if readable(values) and values.numel() and not (low <= values.amin().item() and values.amax().item() <= high):
        raise range_error(layer, values, low, high, name)


def range_error(layer: object, values: Tensor, low: int, high: int, name: str = "targets") -> TargetError:
    """The error of values out of low..high, with the first of them."""
    outside = values[(values < low) | (values > high)].flatten()
    got = f", got {outside[0].item()}" if len(outside) else ""
    return TargetError(f"{type(layer).__name__}: {name}: expected {low}..{high}{got}")


def wide(x: Tensor) -> Tensor:
    """`x`, half precision as float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def mean_or_sum(layer: object, reduction: Reduction) -> Literal["mean", "sum"]:
    """torch's word for a reduction of a loss without a mean over the batch; ArgumentError for another reduction."""
    if reduction in ("auto", "mean"):
        return "mean"
    if reduction == "sum":
        return "sum"
    raise ArgumentError(f"{type(layer).__name__}: reduction: expected 'mean', 'sum' or 'auto', got {reduction!r}")


def reduced(layer: object, loss: Tensor, reduction: Reduction) -> Tensor:
    """The mean or sum of all values of `loss`, a 0-d tensor."""
    return by_word(loss, mean_or_sum(layer, reduction))


def by_word(loss: Tensor, reduction: str) -> Tensor:
    """`loss` reduced by torch's word: `mean`, `sum` or `none`."""
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def mean_over(loss: Tensor, dims: int | Sequence[int]) -> Tensor:
    """The mean over `dims`, which remain as sizes of 1; `loss` itself if there are none."""
    wanted = (dims,) if isinstance(dims, int) else tuple(dims)
    return loss.mean(wanted, keepdim=True) if wanted else loss


class OfPredictions(GivesLoss):
    """A loss of predictions and targets of one shape, which is reduced as the call says."""

    def _loss(self, predictions: Tensor, targets: Tensor, reduction: str) -> Tensor:
        """The loss of tensors of one shape; the reduction is `mean`, `sum` or `none`."""
        raise NotImplementedError

    @lift
    def forward(self, predictions: Tensor, targets: Tensor, reduction: Reduction = "auto") -> Tensor:
        """`[...], [...] -> []`; "auto" is the mean. Raises ArgumentError for "batch_mean" and what is unknown."""
        expect_equal_shapes(self, predictions, targets)
        return self._loss(predictions, targets, mean_or_sum(self, reduction))

    @lift
    def forward_no_reduction(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """As `forward`, not reduced: `[...], [...] -> [...]`."""
        expect_equal_shapes(self, predictions, targets)
        return self._loss(predictions, targets, "none")


def loss_pair(config: type[ModuleConfig], twin: type[nn.Module], reduction: str = "mean", **only: Any) -> Counterpart:
    """The pair of a loss and torch's, with the `reduction` that `forward` has by default; others are its argument."""
    remedy = "; Burn adds nothing to differences, nor swaps" if "swap" in only else ""
    return alike(config, twin, only={"reduction": reduction, **only}, remedy=remedy)
