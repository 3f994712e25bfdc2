"""Functions of torch that are taken apart before torch records them: their derivatives are those of the parts.

torch has no decomposition of their backward operators, or computes them beside the dispatcher.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..._torch_compat.dispatch import TORCHS_WEIGHT_NORM, attention_math, ctc_losses, decomposition_of
from .tables import Tables, translates

_TERMS = 18
"""Of the series of e^A where the norm of A is at most 1/2: the next one is below 1e-22."""


def matrix_exp(input: Tensor) -> Tensor:
    """e^A by its series for A / 2^s, squared s times (Higham 2005, without its Pade approximants)."""
    size = float(input.detach().abs().sum(-1).max()) if input.numel() else 0.0
    squarings = max(0, math.frexp(size)[1] + 1) if math.isfinite(size) else 0
    scaled = input * 0.5**squarings
    result = unit = torch.eye(input.shape[-1], dtype=input.dtype, device=input.device).expand(input.shape)
    for term in range(_TERMS, 0, -1):
        result = unit + scaled @ result / term
    for _ in range(squarings):
        result = result @ result
    return result


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X of A X = B, or of X A = B, by elimination with the largest pivot of each column."""
    if not left:
        return solve(A.mT, B.mT).mT
    size, is_vector = A.shape[-1], B.ndim == 1 or B.shape == A.shape[:-1]
    right = B[..., None] if is_vector else B
    batch = torch.broadcast_shapes(A.shape[:-2], right.shape[:-2])
    rows = torch.cat([A.expand(*batch, size, size), right.expand(*batch, size, right.shape[-1])], -1)
    places = torch.arange(size, device=A.device).expand(*batch, size)
    for column in range(size):
        largest = rows.detach()[..., column:, column].abs().argmax(-1, keepdim=True) + column
        rows = _swapped(rows, column, largest)
        pivot = rows[..., column, None, :] / rows[..., column, None, column, None]
        others = rows - rows[..., :, column, None] * pivot
        rows = torch.where((places == column)[..., None], pivot, others)
    result = rows[..., size:]
    if not bool(result.detach().isfinite().all()):
        raise torch.linalg.LinAlgError("linalg.solve: the matrix is singular")  # pyright: ignore[reportPrivateImportUsage]
    return result[..., 0] if is_vector else result


def _swapped(rows: Tensor, place: int, other: Tensor) -> Tensor:
    """The rows of matrices with the row at `place` and that at `other`, `[.., 1]`, in each other's place."""
    places = torch.arange(rows.shape[-2], device=rows.device)
    order = torch.where(places == other, place, torch.where(places == place, other, places))
    return rows.gather(-2, order[..., None].expand(rows.shape))


def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of the reflections I - tau v v^T, whose v are the columns below the diagonal."""
    rows, columns = input.shape[-2:]
    unit = torch.eye(rows, dtype=input.dtype, device=input.device)
    vectors = input.tril(-1) + unit[:, :columns]
    result = unit.expand(*input.shape[:-2], rows, rows)
    for place in range(tau.shape[-1]):
        vector = vectors[..., place, None]
        result = result - tau[..., place, None, None] * (result @ vector) @ vector.mT
    return result[..., :columns]


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """g v / |v|, of the vectors along all dimensions but `dim`; -1 is of all (Salimans & Kingma 2016, eq. 2)."""
    dims: Any = [index for index in range(v.ndim) if dim == -1 or index != dim % v.ndim]
    return v * (g / (v * v).sum(dims, keepdim=dim != -1).sqrt())


@translates("linalg_matrix_exp")
def linalg_matrix_exp(t: Tables, tensor: Tensor) -> Tensor:
    with t.mode:
        return matrix_exp(tensor)


@translates("linalg_lu_solve")
def linalg_lu_solve(
    t: Tables, LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    with t.mode:
        size = LU.shape[-1]
        matrix = (LU.tril(-1) + torch.eye(size, dtype=LU.dtype, device=LU.device)) @ LU.triu()
        for place in reversed(range(size)):
            matrix = _swapped(matrix, place, pivots[..., place, None].long() - 1)
        return solve(matrix.mT if adjoint else matrix, B, left=left)


@translates("_weight_norm_interface_backward")
def weight_norm_backward(
    t: Tables, grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    with t.mode:
        dims = [index for index in range(v.ndim) if index != dim]
        along = (grad * v).sum(dims, keepdim=True) / norms
        return (grad - v * (along / norms)) * (g / norms), along


_IMPOSSIBLE = -1e30
"""The logarithm of no chance at all: -inf would make derivatives NaN."""


def _three(value: Any) -> list[int]:
    """A size for each of _three dimensions."""
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * 3 if len(sizes) == 1 else sizes


def _windows_3d(
    input: Tensor, kernel: list[int], step: list[int], pad: list[int], gap: list[int], ceil_mode: bool, value: Any
) -> Tensor:
    """The windows of a pool, `[.., D, H, W, places]`; `value` is what stands beside the input."""
    windows = input
    for dim in range(3):
        place, span = dim - 3 + input.ndim, (kernel[dim] - 1) * gap[dim] + 1
        size = windows.shape[place]
        behind = max(
            pad[dim], (_count(size, span, step[dim], pad[dim], ceil_mode) - 1) * step[dim] + span - size - pad[dim]
        )
        windows = F.pad(windows, [0, 0] * (windows.ndim - 1 - place) + [pad[dim], behind], value=value)
        windows = windows.unfold(place, span, step[dim])[..., :: gap[dim]]
    return windows.flatten(-3)


def _count(size: int, span: int, step: int, pad: int, ceil_mode: bool) -> int:
    """The number of windows along a dimension."""
    if not ceil_mode:
        return (size + 2 * pad - span) // step + 1
    count = -(-(size + 2 * pad - span) // step) + 1
    return count - ((count - 1) * step >= size + pad)  # none begins behind the input


def _avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    kernel, pad = _three(kernel_size), _three(padding)
    step = _three(stride) if stride else kernel
    total = _windows_3d(input, kernel, step, pad, [1, 1, 1], ceil_mode, 0.0).sum(-1)
    if divisor_override is not None:
        return total / divisor_override
    sizes = torch.ones((), dtype=input.dtype, device=input.device)
    for size, span, by, beside in zip(input.shape[-3:], kernel, step, pad, strict=True):
        first, last = (-beside, size + beside) if count_include_pad else (0, size)
        starts = [place * by - beside for place in range(_count(size, span, by, beside, ceil_mode))]
        counts = [min(start + span, last) - max(start, first) for start in starts]
        sizes = sizes[..., None] * torch.tensor(counts, dtype=input.dtype, device=input.device)
    return total / sizes


def _max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    pooled = F.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return pooled if return_indices else pooled[0]


def _max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    kernel, pad, gap = (_three(it) for it in (kernel_size, padding, dilation))
    step = _three(stride) if stride else kernel
    lowest = -torch.inf if input.dtype.is_floating_point else torch.iinfo(input.dtype).min
    windows = _windows_3d(input, kernel, step, pad, gap, ceil_mode, lowest)
    if not return_indices:
        return windows.max(-1).values
    values, largest = windows.max(-1)
    places = torch.arange(input[0, 0].numel() if input.ndim == 5 else input[0].numel(), device=input.device)
    places = _windows_3d(places.view(1, *input.shape[-3:]), kernel, step, pad, gap, ceil_mode, 0)
    return values, places.expand(windows.shape).gather(-1, largest[..., None])[..., 0]


def _adaptive_max_pool(rank: int) -> Callable[..., Any]:
    with_indices: Any = getattr(F, f"adaptive_max_pool{rank}d_with_indices")

    def pooled(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        if return_indices:
            return with_indices(input, output_size)
        sizes = [output_size] * rank if output_size is None or isinstance(output_size, int) else list(output_size)
        for dim, size in zip(range(input.ndim - rank, input.ndim), sizes, strict=True):
            length = input.shape[dim]
            size = length if size is None else size
            # The windows that torch takes: from the floor of a place to the ceiling of the next one.
            bounds = [(place * length // size, -(-(place + 1) * length // size)) for place in range(size)]
            windows = [input.narrow(dim, first, last - first).max(dim, keepdim=True).values for first, last in bounds]
            input = torch.cat(windows, dim) if windows else input.narrow(dim, 0, 0)
        return input

    return pooled


def _bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = (input1[..., None, None, :] @ weight)[..., 0, :]  # [.., out, in2]
    result = (rows @ input2[..., None])[..., 0]
    return result if bias is None else result + bias


def _embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """A sum, mean or maximum of rows for each bag, by a table of which index is in which bag."""
    if (input.ndim == 1) == (offsets is None):
        raise ValueError(f"_embedding_bag: offsets are for indices of rank 1 alone, got indices of rank {input.ndim}")
    if mode not in ("sum", "mean", "max") or (per_sample_weights is not None and mode != "sum"):
        raise ValueError("_embedding_bag: mode has to be sum, mean or max, and per_sample_weights are for sum alone")
    places = torch.arange(input.numel(), device=input.device)
    if offsets is None:
        starts = torch.arange(input.shape[0], device=input.device) * input.shape[1]
    else:
        starts = offsets[:-1] if include_last_offset else offsets
    ends = torch.cat([starts[1:], torch.full_like(starts[:1], input.numel())])
    indices = input.reshape(-1)
    rows = F.embedding(indices, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    within = (places >= starts[:, None]) & (places < ends[:, None])
    if padding_idx is not None:
        within = within & (indices != padding_idx % weight.shape[0])
    if mode == "max":
        lowest = torch.where(within[..., None], rows, -torch.inf).max(1).values if indices.numel() else rows.sum(0)
        return torch.where(within.any(1)[:, None], lowest, 0.0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    shares = within.to(rows.dtype)
    total = shares @ rows
    return total / shares.sum(1, keepdim=True).clamp_min(1.0) if mode == "mean" else total


def _multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Targets of a row are its indices before the first -1; each is to be 1 larger than each class that is none."""
    count = input.shape[-1]
    valid = (target == -1).long().cumsum(-1) == 0
    classes = torch.arange(count, device=input.device)
    is_target = ((target[..., None] == classes) & valid[..., None]).any(-2)
    gaps = 1 - input.gather(-1, target.clamp_min(0))[..., None] + input[..., None, :]
    counted = valid[..., None] & ~is_target[..., None, :]
    loss = torch.where(counted, gaps.relu(), 0.0).sum((-2, -1)) / count
    kind = _reduction_of(size_average, reduce, reduction)
    return loss.mean() if kind == "mean" else loss.sum() if kind == "sum" else loss


def _reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`mean`, `sum` or `none`, as torch's options say, the older two of them first."""
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    return attention_math(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]


def _multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    kinds = {"none": 0, "mean": 1, "sum": 2}
    operator = torch.ops.aten.multi_margin_loss.default
    kind = kinds[_reduction_of(size_average, reduce, reduction)]
    return _decomposed(operator)(input, target, p, margin, weight, kind)


def _grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    modes = {"bilinear": 0, "nearest": 1, "bicubic": 2}
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    if padding_mode == "border":  # as torch, no derivative at the border itself
        sizes = torch.tensor([1.0 / input.shape[3], 1.0 / input.shape[2]], dtype=grid.dtype, device=grid.device)
        last = torch.ones_like(sizes) if align_corners else 1 - sizes
        grid = torch.where(grid.abs() < last, grid, torch.minimum(torch.maximum(grid, -last), last).detach())
    operator = torch.ops.aten.grid_sampler_2d.default
    return _decomposed(operator)(input, grid, modes[mode], paddings[padding_mode], bool(align_corners))


def _decomposed(operator: Any) -> Callable[..., Any]:
    decomposition = decomposition_of(operator)
    assert decomposition is not None
    return decomposition


def _ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Graves et al. 2006, eq. 6 to 8, in logarithms; all samples together, one step in time after the other."""
    device = log_probs.device
    single = log_probs.ndim == 2
    if single:
        log_probs = log_probs[:, None]
    steps, lengths = (torch.as_tensor(it, device=device).reshape(-1).long() for it in (input_lengths, target_lengths))
    rows = _rows(targets, lengths, log_probs.shape[1])
    time, batch = log_probs.shape[:2]
    labels = torch.full((batch, 2 * rows.shape[1] + 1), blank, dtype=torch.int64, device=device)
    if rows.shape[1]:
        labels = torch.stack([labels[:, 1::2], rows.long()], 2).flatten(1)
        labels = F.pad(labels, (0, 1), value=blank)
    size = labels.shape[1]
    places = torch.arange(size, device=device)
    skips = (labels != blank) & (places >= 2) & (labels != labels.roll(2, 1))
    chances = log_probs.gather(2, labels.expand(time, batch, size))
    first = (places < 2) & (places <= 2 * lengths[:, None])
    alpha = torch.where(first, chances[0], _IMPOSSIBLE)
    for step in range(1, time):
        one, two = (F.pad(alpha, (by, 0), value=_IMPOSSIBLE)[:, :size] for by in (1, 2))
        ways = torch.stack([alpha, one, torch.where(skips, two, _IMPOSSIBLE)])
        alpha = torch.where((step < steps)[:, None], (ways.logsumexp(0) + chances[step]).clamp_min(_IMPOSSIBLE), alpha)
    ends = [alpha.gather(1, (2 * lengths - back).clamp_min(0)[:, None])[:, 0] for back in (0, 1)]
    ends[1] = torch.where(lengths > 0, ends[1], _IMPOSSIBLE)
    # No steps at all: nothing is expected, or nothing is possible.
    total = torch.where(steps > 0, torch.stack(ends).logsumexp(0), torch.where(lengths > 0, _IMPOSSIBLE, 0.0))
    # torch's derivative is that of the input of log_softmax, from which the chances come: e^x more.
    total = total - _slope(log_probs, log_probs.detach().exp(), steps)
    loss = torch.where(total < _IMPOSSIBLE / 2, 0.0 if zero_infinity else torch.inf, -total)
    if reduction == "mean":
        loss = (loss / lengths.clamp_min(1)).mean()
    elif reduction == "sum":
        loss = loss.sum()
    return loss[0] if single and reduction == "none" else loss


def _ctc_losses(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int, zero_infinity: bool
) -> tuple[Tensor, None]:
    """The loss of each sample, with gradients of 0 where it is infinite."""
    return _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, "none"), None


def _slope(log_probs: Tensor, slope: Tensor, steps: Tensor) -> Tensor:
    """0 for each sample, with `slope` as its derivative in each of its steps."""
    nothing = (log_probs - log_probs.detach()).nan_to_num() * slope
    within = torch.arange(log_probs.shape[0], device=steps.device)[:, None] < steps
    return torch.where(within[..., None], nothing, 0.0).sum((0, 2))


def _rows(targets: Tensor, lengths: Tensor, batch: int) -> Tensor:
    """Targets as `[batch, length]`, whether they come so or one after the other."""
    if targets.ndim == 2 or batch == 1:
        return targets.reshape(batch, -1)
    counts = [int(it) for it in lengths.tolist()]
    rows = [F.pad(it, (0, max(counts, default=0) - len(it))) for it in targets.split(counts)]
    return torch.stack(rows)


_COMPOSED: dict[Any, Callable[..., Any]] = {
    torch.max_pool1d: _max_pool1d,
    F.max_pool1d: _max_pool1d,
    torch.max_pool3d: _max_pool3d,
    F.max_pool3d: _max_pool3d,
    F.max_pool3d_with_indices: partial(_max_pool3d, return_indices=True),
    **{getattr(F, f"adaptive_max_pool{rank}d"): _adaptive_max_pool(rank) for rank in (1, 2, 3)},
    F.scaled_dot_product_attention: _attention,
    F.multi_margin_loss: _multi_margin_loss,
    F.grid_sample: _grid_sample,
    F.ctc_loss: _ctc_loss,
    ctc_losses: _ctc_losses,
    F.avg_pool3d: _avg_pool3d,
    F.bilinear: _bilinear,
    F.embedding_bag: _embedding_bag,
    F.multilabel_margin_loss: _multilabel_margin_loss,
    TORCHS_WEIGHT_NORM: weight_norm,
    torch.linalg.solve: solve,
    torch.linalg.householder_product: householder_product,
}


@cache
def _asking_within(function: FunctionType) -> FunctionType:
    """A function of torch.nn.functional that does not ask modes once more, so that they are asked by what it calls.

    torch turns a mode off while it answers: the attention in `multi_head_attention_forward` would be torch's.
    """
    never = dict.fromkeys(_ASKS, lambda *_: False)
    copied = FunctionType(
        function.__code__,
        {**function.__globals__, **never},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


_ASKS = frozenset({"has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"})


class Composed(TorchFunctionMode):
    """Calls the forms of functions that are made of operators with a translation."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        composed = _COMPOSED.get(func)
        if func is F.grid_sample and args[0].ndim != 4:
            composed = None
        if composed is None and type(func) is FunctionType and func.__module__ == F.__name__:
            composed = None if _ASKS.isdisjoint(func.__code__.co_names) else _asking_within(func)
        if composed is None:
            return func(*args, **(kwargs or {}))
        with self:
            return composed(*args, **(kwargs or {}))
