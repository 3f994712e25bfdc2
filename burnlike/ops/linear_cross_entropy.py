"""Cross-entropy of a linear layer's outputs, whose logits are never held as a whole.

The logits of some rows at a time are made, their loss is taken, and what they add to the gradients, all in the forward
pass (Hsu et al. 2024, arXiv:2410.10989, section 3.2). The products are torch's own.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ArgumentError, AutodiffError, ShapeError
from ._arguments import autocast_dtype, check_storage, check_tensor
from ._divided import all_divided, are_divided
from ._function import is_transformed
from ._library import WITHOUT_NATIVE, flops, op
from .cross_entropy import check_options, check_targets, cross_entropy, cross_entropy_reference
from .linear import LONGEST_SUM, is_faster, linear

_cross_entropy = op("cross_entropy")
_cross_entropy_backward = op("cross_entropy_backward")

# The logits of a part and their gradient are held at once: together less than an eighth of all logits.
_PARTS = 17
# Rows with which products are at their speed; more would take memory for nothing.
_MOST_ROWS = {"cpu": 512, "cuda": 4096}
_FEWEST_ROWS = 32
# Of a product that is added to a gradient of another dtype at a time.
_CLASSES = 4096
# The share of rows that count, below which those that don't are left out of the products.
_MOST_COUNTED = 0.9


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`cross_entropy(hidden @ weight.T + bias, targets)` without its logits.

    Differentiable once in hidden, weight and bias; `linear_cross_entropy_reference` is differentiable any number of
    times. Within autocast hidden is converted to its dtype, and so is weight for the products.

    Memory: the logits of a seventeenth of the rows (of at least 32, and of at most 512 on a CPU and 4096 on CUDA) and
    their gradient, less than an eighth of all logits; the gradients of hidden, weight and bias, which are saved for
    the backward pass, where it scales them; and a copy of weight in hidden's dtype if it has another. Time: the
    products of torch's autograd. Weight's gradient is rounded after each part of the rows, so in 16 bits it is about
    twice as far from the exact one as torch's, unless weight is float32, where the parts are added in float32.

    Args:
        hidden: `[n, d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        weight: `[classes, d]`, of hidden's dtype or float32.
        targets: `[n]` int64, each 0..classes - 1 or `ignore_index`.
        bias: `[classes]`, of weight's dtype, or None.
        ignore_index, label_smoothing, z_loss, soft_cap: as for `cross_entropy`.
        reduction: `mean`, `sum` or `none`. With `none` the backward pass makes the logits once more if weight or bias
            needs a gradient.

    Returns:
        `[]`, or `[n]` of `none`, in hidden's dtype; float32 of 16 bits within autocast.

    Raises:
        ArgumentError: an option is out of its range.
        TargetError: a target is no class (on the CPU; on CUDA an assertion on the device).
    """
    options: Any = (ignore_index, label_smoothing, z_loss, soft_cap, reduction)
    loss = unrounded_loss(hidden, weight, targets, bias, *options)
    is_16_bits = hidden.dtype.itemsize == 2 and autocast_dtype(hidden) is None
    return loss.to(hidden.dtype) if is_16_bits else loss


def unrounded_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
    reduction: str = "mean",
) -> Tensor:
    """As `linear_cross_entropy`, in the type that it is computed in: float32 of 16 bits."""
    if (dtype := autocast_dtype(hidden)) is not None:
        hidden, weight, bias = hidden.to(dtype), _in_16_bits(weight, dtype), _in_16_bits(bias, dtype)
    _check(hidden, weight, targets, bias, ignore_index, reduction)
    check_options("linear_cross_entropy", label_smoothing, z_loss, soft_cap)
    options: Any = (ignore_index, label_smoothing, z_loss, soft_cap, reduction)
    if are_divided(hidden, weight, targets, bias):
        logits = linear(*all_divided(hidden, weight.to(hidden.dtype), None if bias is None else bias.to(hidden.dtype)))
        return cross_entropy(logits, targets, None, *options)
    if is_transformed() or hidden.device.type in WITHOUT_NATIVE:
        return linear_cross_entropy_reference(hidden, weight, targets, bias, *options)
    is_tracked = torch.is_grad_enabled()
    hidden_needed = is_tracked and hidden.requires_grad
    weight_needed = is_tracked and (weight.requires_grad or (bias is not None and bias.requires_grad))
    if reduction == "none":
        losses, _ = _of_rows(hidden, weight, targets, bias, *options[:-1], hidden_needed and not weight_needed)
        return losses
    loss, *_ = _linear_cross_entropy(hidden, weight, targets, bias, *options, hidden_needed, weight_needed)
    return loss


def linear_cross_entropy_reference(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The same as `linear_cross_entropy` in plain torch, on any device, with all logits."""
    bias = None if bias is None else bias.to(hidden.dtype)
    logits = F.linear(hidden, weight.to(hidden.dtype), bias)
    options: Any = (ignore_index, label_smoothing, z_loss, soft_cap, reduction)
    return cross_entropy_reference(logits, targets, None, *options)


def _in_16_bits(tensor: Any, dtype: torch.dtype) -> Any:
    """The other 16-bit type as `dtype`. What is float32 remains so, and its gradient is added in float32."""
    return tensor.to(dtype) if tensor is not None and tensor.dtype.itemsize == 2 else tensor


def _check(
    hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None, ignore_index: int, reduction: str
) -> None:
    name = "linear_cross_entropy"
    check_tensor(name, "hidden", hidden)
    if hidden.dim() != 2 or weight.dim() != 2:
        raise ShapeError(
            f"{name}: expected hidden of shape [n, d] and weight of shape [classes, d], got {list(hidden.shape)} and"
            f" {list(weight.shape)}"
        )
    width = (weight.shape[0], hidden.shape[1])
    check_tensor(name, "weight", weight, (hidden.dtype, torch.float32), hidden.device, width)
    if bias is not None:
        check_tensor(name, "bias", bias, (weight.dtype,), hidden.device, weight.shape[:1])
    check_tensor(name, "targets", targets, (torch.int64,), hidden.device, hidden.shape[:1])
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"{name}: expected reduction 'mean', 'sum' or 'none', got {reduction!r}")
    check_targets(name, targets, weight.shape[0], ignore_index)


@torch.library.custom_op("burnlike::linear_cross_entropy", mutates_args=())
def _linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    soft_cap: float | None,
    reduction: str,
    hidden_needed: bool,
    weight_needed: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The loss, the gradients of hidden, weight and bias, or [0] if not needed, and the factor that they lack.

    The mean's division is in the factor as far as it is a power of two, so that float16 does not lose small gradients.
    """
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    factor = hidden.new_ones((), dtype=dtype)
    count = factor.double()
    if reduction == "mean":  # nothing is read here: the number of rows that count stays on the device
        count = (targets != ignore_index).sum().double()
        factor = factor / 2 ** len(hidden).bit_length()  # a power of two is exact in every type
    slope = (1 / (count * factor)).to(dtype)
    options = (ignore_index, label_smoothing, z_loss, soft_cap, "sum")
    loss, of_hidden, of_weight, of_bias = _in_parts(
        hidden, weight, targets, bias, options, slope, hidden_needed, weight_needed
    )
    return (loss / count).to(dtype), of_hidden, of_weight, of_bias, factor


@torch.library.custom_op("burnlike::linear_cross_entropy_rows", mutates_args=())
def _of_rows(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    soft_cap: float | None,
    hidden_needed: bool,
) -> tuple[Tensor, Tensor]:
    """The losses `[n]`, and the gradients of hidden where each loss has the slope 1, or [0] if not needed."""
    options = (ignore_index, label_smoothing, z_loss, soft_cap, "none")
    slope = hidden.new_ones(len(hidden), dtype=torch.promote_types(hidden.dtype, torch.float32))
    losses, grad_hidden, *_ = _in_parts(hidden, weight, targets, bias, options, slope, hidden_needed, False)
    return losses, grad_hidden


@torch.library.custom_op("burnlike::linear_cross_entropy_rows_backward", mutates_args=())
def _gradients_of_rows(
    grad: Tensor,
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    soft_cap: float | None,
    hidden_needed: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of hidden, or [0] if not needed, weight and bias."""
    options = (ignore_index, label_smoothing, z_loss, soft_cap, "none")
    _, of_hidden, of_weight, of_bias = _in_parts(hidden, weight, targets, bias, options, grad, hidden_needed, True)
    return of_hidden, of_weight, of_bias


def _in_parts(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None,
    options: tuple[Any, ...],
    slope: Tensor,
    hidden_needed: bool,
    weight_needed: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum of the losses in float64, or the losses `[n]`; and the gradients of hidden, weight and bias, or [0].

    Args:
        slope: of the sum, `[]`, or of each loss, `[n]`.
    """
    named = {"hidden": hidden, "weight": weight, "bias": bias}
    check_storage("linear_cross_entropy", {name: value for name, value in named.items() if value is not None})
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    all_rows, classes, is_of_rows = len(hidden), len(weight), slope.dim() > 0
    same_weight, same_bias = weight.to(hidden.dtype), None if bias is None else bias.to(hidden.dtype)
    counted = _counted_rows(targets, options[0])
    if counted is not None:
        hidden, targets = hidden[counted], targets[counted]
        slope = slope[counted] if is_of_rows else slope
    n = len(hidden)
    grad_hidden = hidden.new_empty(hidden.shape if hidden_needed else 0)
    grad_weight = weight.new_zeros(weight.shape if weight_needed else 0)
    grad_bias = weight.new_zeros(classes if weight_needed and bias is not None else 0, dtype=dtype)
    rows = max(_FEWEST_ROWS, min(n // _PARTS, _MOST_ROWS[hidden.device.type]))
    loss = hidden.new_zeros(n, dtype=dtype) if is_of_rows else hidden.new_zeros((), dtype=torch.float64)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        logits = linear(hidden[part], same_weight, same_bias)
        part_loss, *statistics = _cross_entropy(logits, targets[part], None, *options)
        if is_of_rows:
            loss[part] = part_loss
        else:
            loss += part_loss
        grads = logits
        if hidden_needed or weight_needed:
            part_slope = slope[part] if is_of_rows else slope
            grads = _cross_entropy_backward(part_slope, logits, targets[part], None, *statistics, *options)
        if hidden_needed:
            grad_hidden[part] = _product_over_classes(grads, same_weight)
        if weight_needed:
            _add_product(grad_weight, grads, hidden[part])
        if len(grad_bias):
            grad_bias += grads.sum(0, dtype=dtype)
        del grads, logits  # before the next ones are made
    if counted is not None and hidden_needed:
        grad_hidden = hidden.new_zeros(all_rows, hidden.shape[1]).index_copy_(0, counted, grad_hidden)
    if counted is not None and is_of_rows:
        loss = loss.new_zeros(all_rows).index_copy_(0, counted, loss)
    return loss, grad_hidden, grad_weight, grad_bias


def _counted_rows(targets: Tensor, ignore_index: int) -> Tensor | None:
    """The rows that count, on a CPU where they are few enough for a copy of them to gain; None for all."""
    if not targets.is_cpu:
        return None
    counted = (targets != ignore_index).nonzero()[:, 0]
    return counted if len(counted) < _MOST_COUNTED * len(targets) else None


def _product_over_classes(grads: Tensor, weight: Tensor) -> Tensor:
    """`grads @ weight`, in sums that are short enough for `linear`'s faster products."""
    if not is_faster(grads[:, :LONGEST_SUM], weight[:LONGEST_SUM].mT):
        return linear(grads, weight.mT)
    total, *others = (
        linear(grads[:, start : start + LONGEST_SUM], weight[start : start + LONGEST_SUM].mT)
        for start in range(0, len(weight), LONGEST_SUM)
    )
    for other in others:
        total += other
    return total


def _add_product(total: Tensor, grads: Tensor, x: Tensor) -> None:
    """Add `grads.T @ x`, in total's dtype."""
    for start in range(0, len(total), _CLASSES):
        total[start : start + _CLASSES] += linear(grads[:, start : start + _CLASSES].mT, x.mT)


@_linear_cross_entropy.register_fake
def _(
    hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None, *options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    *_, hidden_needed, weight_needed = options
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    loss = hidden.new_empty((), dtype=dtype)
    grad_hidden = hidden.new_empty(hidden.shape if hidden_needed else 0)
    grad_weight = weight.new_empty(weight.shape if weight_needed else 0)
    grad_bias = weight.new_empty(len(weight) if weight_needed and bias is not None else 0, dtype=dtype)
    return loss, grad_hidden, grad_weight, grad_bias, torch.empty_like(loss)


@_of_rows.register_fake
def _(hidden: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    return hidden.new_empty(len(hidden), dtype=dtype), hidden.new_empty(hidden.shape if arguments[-1] else 0)


@_gradients_of_rows.register_fake
def _(
    grad: Tensor, hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None, *options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    grad_bias = weight.new_empty(0 if bias is None else len(weight), dtype=grad.dtype)
    return hidden.new_empty(hidden.shape if options[-1] else 0), weight.new_empty(weight.shape), grad_bias


@flops("linear_cross_entropy")
def _(hidden: Sequence[int], weight: Sequence[int], *options: object, **_: object) -> int:
    *_rest, hidden_needed, weight_needed = options
    return (1 + bool(hidden_needed) + bool(weight_needed)) * 2 * hidden[0] * hidden[1] * weight[0]


@flops("linear_cross_entropy_rows")
def _(hidden: Sequence[int], weight: Sequence[int], *options: object, **_: object) -> int:
    return (1 + bool(options[-1])) * 2 * hidden[0] * hidden[1] * weight[0]


@flops("linear_cross_entropy_rows_backward")
def _(grad: Sequence[int], hidden: Sequence[int], weight: Sequence[int], *options: object, **_: object) -> int:
    return (2 + bool(options[-1])) * 2 * hidden[0] * hidden[1] * weight[0]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, weight, *_ = inputs
    _, *grads = output
    ctx.weight_dtype = weight.dtype
    ctx.mark_non_differentiable(*grads)
    ctx.set_materialize_grads(False)  # which would be as large as the gradients
    ctx.save_for_backward(*grads)


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    _refuse_second_derivative()
    hidden_needed, weight_needed, _, bias_needed, *options = ctx.needs_input_grad
    if grad is None:
        return (None,) * len(ctx.needs_input_grad)
    grad_hidden, grad_weight, grad_bias, factor = ctx.saved_tensors
    factor = factor * grad
    return (
        grad_hidden * factor if hidden_needed else None,
        grad_weight * factor if weight_needed else None,
        None,
        (grad_bias * factor).to(ctx.weight_dtype) if bias_needed else None,
        *(None for _ in options),
    )


def _refuse_second_derivative() -> None:
    if torch.is_grad_enabled():  # a graph of what was saved would lack the gradients' own derivatives
        raise AutodiffError(
            "linear_cross_entropy has no second derivative, so create_graph=True is refused; use"
            " linear_cross_entropy_reference where one is needed"
        )


_linear_cross_entropy.register_autograd(_backward, setup_context=_save)


def _save_rows(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    hidden, weight, targets, bias, *ctx.options, ctx.has_gradient = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*(output[1:] if ctx.has_gradient else (hidden, weight, targets, bias)))


def _backward_of_rows(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    _refuse_second_derivative()
    hidden_needed, weight_needed, _, bias_needed, *options = ctx.needs_input_grad
    if grad is None:
        return (None,) * len(ctx.needs_input_grad)
    if ctx.has_gradient:
        (grad_hidden,) = ctx.saved_tensors
        return (grad_hidden * grad[:, None]).to(grad_hidden.dtype), *(None for _ in ctx.needs_input_grad[1:])
    weight = ctx.saved_tensors[1]
    grads = _gradients_of_rows(grad.contiguous(), *ctx.saved_tensors, *ctx.options, hidden_needed)
    return (
        grads[0] if hidden_needed else None,
        grads[1] if weight_needed else None,
        None,
        grads[2].to(weight.dtype) if bias_needed else None,
        *(None for _ in options),
    )


_of_rows.register_autograd(_backward_of_rows, setup_context=_save_rows)
