"""Cross-entropy over classes: logarithm of softmax, loss and gradient with one read of the logits in each pass."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .._torch_compat.transforms import readable
from ..errors import ArgumentError, ShapeError, TargetError
from ._arguments import autocast_dtype, check_memory, check_tensor
from ._divided import are_divided, largest, mesh_of_classes, summed, whole
from ._example import Example
from ._function import call, second_derivative
from ._library import autograd, fake, op

Reduction = Literal["none", "mean", "sum"]

_cross_entropy = op("cross_entropy")
_cross_entropy_backward = op("cross_entropy_backward")


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log p(target) of each row, with p = softmax(logits), as `torch.nn.functional.cross_entropy`.

    With weights w and smoothing a, a row's loss is (1 - a) w[t] (-log p[t]) + a / classes * sum(w * -log p) (Szegedy
    et al. 2016, section 7), and the mean is the sum over the rows divided by that of w[t]. Differentiable any
    number of times in `logits`, from the second derivative on in plain torch.

    Memory: the forward pass makes two numbers for each row. With them, the logits and targets are saved for the
    backward pass, which makes the gradient and nothing else. Made in the forward pass, the gradient would spare an exp
    of each logit, and cost a second tensor of the logits' size where it has to be scaled.

    Args:
        logits: `[n, classes]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        targets: `[n]` int64, each 0..classes - 1 or `ignore_index`.
        weight: `[classes]`, of the logits' dtype or float32; it gets no gradient. None: all 1.
        ignore_index: the target of rows that do not count. Their gradient is 0, whatever their logits are.
        label_smoothing: a, 0..1.
        z_loss: 0..1e6; adds z_loss * w[t] * logsumexp(logits)^2 to each row (PaLM: 1e-4; Chowdhery et al. 2022,
            section 5).
        soft_cap: 1e-6..1e6; logits are soft_cap * tanh(logits / soft_cap) first (Gemma 2: 30; Gemma Team 2024,
            section 2).
        reduction: `none`, `mean` or `sum`.

    Returns:
        `[]`, or `[n]` for `none`, in the logits' dtype; float32 of 16-bit logits within autocast. It is computed in
        float32 (float64 for float64) and added in float64. NaN for the mean over no rows.

    Raises:
        ArgumentError: an option is out of its range.
        TargetError: a target is no class (on CUDA, as in torch, an assertion on the device, which ends the process's
            use of it).
    """
    loss = unrounded_loss(logits, targets, weight, ignore_index, label_smoothing, z_loss, soft_cap, reduction)
    return loss if loss.dtype == logits.dtype else loss.to(loss_dtype(logits))


def unrounded_loss(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """As `cross_entropy`, in the type that it is computed in: float32 of 16-bit logits."""
    arguments = (logits, targets, weight, ignore_index, label_smoothing, z_loss, soft_cap, reduction)
    if are_divided(logits) and (mesh := mesh_of_classes(logits)) is not None:
        return _of_divided(mesh, *arguments)
    result = call("cross_entropy", _cross_entropy, _reference, _check, *arguments)
    return result if isinstance(result, Tensor) else result[0]


def cross_entropy_reference(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """The same as `cross_entropy` in plain torch, on any device."""
    loss = _reference(logits, targets, weight, ignore_index, label_smoothing, z_loss, soft_cap, reduction)
    return loss.to(loss_dtype(logits))


def _reference(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    soft_cap: float | None,
    reduction: Reduction,
) -> Tensor:
    ignored = targets == ignore_index
    values = logits.to(torch.promote_types(logits.dtype, torch.float32)).masked_fill(ignored[:, None], 0)
    weight = None if weight is None else weight.detach().to(values.dtype)
    if soft_cap is not None:
        values = soft_cap * torch.tanh(values / soft_cap)
    # Written out, as torch's own function with weights and smoothing has no rule for vmap.
    logs = F.log_softmax(values, 1)
    classes = targets.masked_fill(ignored, 0)
    counted = (~ignored).to(values.dtype)
    share = counted if weight is None else counted * weight[classes]
    rows = -logs.gather(1, classes[:, None])[:, 0] * share
    if label_smoothing:
        others = -(logs if weight is None else logs * weight).sum(1) * counted
        rows = (1 - label_smoothing) * rows + label_smoothing / logits.shape[1] * others
    if z_loss:
        rows = rows + z_loss * values.logsumexp(1).square() * share
    if reduction == "none":
        return rows
    return rows.sum() / share.sum() if reduction == "mean" else rows.sum()


def _of_divided(
    mesh: Any,
    logits: Any,
    targets: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    soft_cap: float | None,
    reduction: Reduction,
) -> Tensor:
    """The loss of logits of which each process has those of some classes, the same in all: rows' sums are exchanged."""
    targets, weight = whole(targets), None if weight is None else whole(weight).detach()
    _check(logits.detach(), targets, weight, ignore_index, label_smoothing, z_loss, soft_cap, reduction)
    mine, classes = logits.to_local(), logits.shape[1]
    values = mine.to(torch.promote_types(mine.dtype, torch.float32))
    ignored = targets == ignore_index
    values = values.masked_fill(ignored[:, None], 0)
    if soft_cap is not None:
        values = soft_cap * torch.tanh(values / soft_cap)
    most = largest(values.amax(1), mesh)
    logsumexp = summed((values - most[:, None]).exp().sum(1), mesh).log() + most
    first = mesh.get_local_rank() * values.shape[1]
    targets = targets.masked_fill(ignored, 0)
    places = targets - first
    is_own = (places >= 0) & (places < values.shape[1])
    of_target = values.gather(1, places.masked_fill(~is_own, 0)[:, None])[:, 0]
    share = (~ignored).to(values.dtype)
    counted = share
    if weight is not None:
        weight = weight.to(values.dtype)
        share = share * weight[targets]
    rows = (logsumexp - summed(of_target.masked_fill(~is_own, 0), mesh)) * share
    if label_smoothing:
        part = None if weight is None else weight[first : first + values.shape[1]]
        total = classes if weight is None else weight.sum()
        others = total * logsumexp - summed((values if part is None else values * part).sum(1), mesh)
        rows = (1 - label_smoothing) * rows + label_smoothing / classes * others * counted
    if z_loss:
        rows = rows + z_loss * logsumexp.square() * share
    if reduction == "none":
        return rows
    return rows.sum() / share.sum() if reduction == "mean" else rows.sum()


def loss_dtype(logits: Tensor) -> torch.dtype:
    """Torch's: float32 within autocast, else that of the logits."""
    is_rounded = logits.dtype.itemsize == 2 and autocast_dtype(logits) is not None
    return torch.float32 if is_rounded else logits.dtype


def _check(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    soft_cap: float | None,
    reduction: Reduction,
) -> None:
    name = "cross_entropy"
    check_tensor(name, "logits", logits)
    if logits.dim() != 2:
        raise ShapeError(f"{name}: expected logits of shape [n, classes], got {list(logits.shape)}")
    check_tensor(name, "targets", targets, (torch.int64,), logits.device, logits.shape[:1])
    if weight is not None:
        check_tensor(name, "weight", weight, (logits.dtype, torch.float32), logits.device, logits.shape[1:])
    check_options(name, label_smoothing, z_loss, soft_cap)
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentError(f"{name}: expected reduction 'none', 'mean' or 'sum', got {reduction!r}")
    check_targets(name, targets, logits.shape[1], ignore_index)


def check_options(name: str, label_smoothing: float, z_loss: float, soft_cap: float | None) -> None:
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"{name}: expected label_smoothing of 0..1, got {label_smoothing}")
    if not 0.0 <= z_loss <= 1e6:
        raise ArgumentError(f"{name}: expected z_loss of 0..1e6, got {z_loss}")
    if soft_cap is not None and not 1e-6 <= soft_cap <= 1e6:
        raise ArgumentError(f"{name}: expected soft_cap of 1e-6..1e6, got {soft_cap}; without a cap it is None")


def check_targets(name: str, targets: Tensor, classes: int, ignore_index: int) -> None:
    """Raise TargetError for the first target that is no class, where values can be read without waiting."""
    if not readable(targets):
        return
    check_memory(name, {"targets": targets})
    if not targets.numel():
        return
    least, most = targets.aminmax()  # one pass; the masks below are of a batch with targets that are left out
    if least.item() >= 0 and most.item() < classes:
        return
    outside = ~((targets >= 0) & (targets < classes)) & (targets != ignore_index)
    if outside.any():
        place = outside.nonzero()[0].tolist()
        raise TargetError(
            f"{name}: expected targets of 0..{classes - 1}, or {ignore_index} (ignore_index), got"
            f" {targets[tuple(place)].item()} in row {place[0]}"
        )


@fake("cross_entropy")
def _(logits: Tensor, targets: Tensor, weight: Tensor | None, *options: Any) -> tuple[Tensor, Tensor, Tensor]:
    _check(logits, targets, weight, *options)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    rows = logits.shape[0]
    loss = logits.new_empty([rows] if options[-1] == "none" else [], dtype=dtype)
    return loss, logits.new_empty([rows, 2], dtype=dtype), logits.new_empty([], dtype=torch.float64)


@fake("cross_entropy_backward")
def _(grad: Tensor, logits: Tensor, *arguments: Any) -> Tensor:
    return logits.new_empty(logits.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, targets, weight, *ctx.options = inputs
    _, statistics, total_weight = output
    ctx.mark_non_differentiable(statistics, total_weight)
    ctx.save_for_backward(logits, targets, weight, statistics, total_weight)


def _backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    grad_logits = _cross_entropy_backward(grad, *ctx.saved_tensors, *ctx.options)
    return grad_logits, *(None,) * 7


def _gradients(grad: Tensor, logits: Tensor, targets: Tensor, weight: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    loss = _reference(logits, targets, weight, *rest[2:])  # the first two are the statistics and the sum of weights
    return torch.autograd.grad(loss, logits, grad, create_graph=True)


autograd("cross_entropy", _backward, _save)
autograd("cross_entropy_backward", *second_derivative(_gradients))

EXAMPLE = Example(cross_entropy, "rows", "classes")
