"""Experts of transformers' mixtures: their rows sorted by expert, one product an expert by the faster library.

transformers computes experts by one of several functions; by default `grouped_mm_experts_forward`, whose products
torch makes by MKL on a CPU. Here is the same with products of `ops.linear`, and with one op for the gate. A module is
taken while its class, its gate and transformers' table of functions are what they were when it was proved.
"""

import sys
import types
from typing import Any

import torch
from torch import Tensor, nn

from ... import ops
from ...ops.linear import is_faster
from .functions import takes
from .gated import GEGLU, GEGLU_TANH, SWIGLU, Gate, is_still, kind_of
from .trials import Proven, proven_dtypes, stand_in, with_weights

_GATES = {"swiglu": SWIGLU, "geglu": GEGLU, "geglu_tanh": GEGLU_TANH, "": None}
_WEIGHTS = {"gate_up_proj", "up_proj", "down_proj", "gate_up_proj_bias", "up_proj_bias", "down_proj_bias"}

# Of a stand-in; torch's products want rows of whole 16 bytes.
_WIDTH, _INNER = 8, 16


class _Order:
    """Rows by expert: where each comes from, and where each of `[n, choices]` has gone."""

    def __init__(self, order: Tensor, choices: int) -> None:
        self.choices, self.rows = choices, order // choices
        self.places = torch.empty_like(order)
        self.places[order] = torch.arange(len(order), device=order.device)


class _Chosen(torch.autograd.Function):
    """Rows of `x` `[n, d]` in the order of experts, `[n * choices, d]`; the derivative adds those of a row in order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: _Order) -> Tensor:
        ctx.order = order
        return x[order.rows]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return _Summed.apply(grads[0], ctx.order), None


class _Summed(torch.autograd.Function):
    """The sums of the rows of each of n, `[n * choices, d] -> [n, d]`: the derivative of `_Chosen`, and it of this."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: _Order) -> Tensor:
        ctx.order = order
        return x[order.places].view(-1, order.choices, x.shape[1]).sum(1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return _Chosen.apply(grads[0], ctx.order), None


class _Grouped(torch.autograd.Function):
    """`x[rows] @ weight[group]` `[n, d_output]`: the first `counts[0]` rows are of group 0, and so on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        ctx.save_for_backward(x, weight)
        product = x.new_empty(x.shape[0], weight.shape[2])
        for rows, out, matrix in zip(x.split(counts), product.split(counts), weight.unbind(), strict=True):
            _multiply(rows, matrix, out)
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_x = _Grouped.apply(grads[0], weight.mT, ctx.counts) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = _GroupedWeights.apply(x, grads[0], ctx.counts, weight.stride(2) == 1)
        return grad_x, grad_weight, None


class _GroupedWeights(torch.autograd.Function):
    """`x[rows].T @ y[rows]` of each group, `[groups, d_input, d_output]`; 0 for a group without rows.

    Its memory is in order of the last dimension if `by_row`, else of the other one, as that of the weight.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, counts: list[int], by_row: bool) -> Tensor:
        ctx.counts = counts
        ctx.save_for_backward(x, y)
        one, other = (x, y) if by_row else (y, x)
        product = x.new_empty(len(counts), one.shape[1], other.shape[1])
        for rows, others, out in zip(one.split(counts), other.split(counts), product.unbind(), strict=True):
            if len(rows):
                _multiply(rows.mT, others, out)
            else:
                out.zero_()
        return product if by_row else product.mT

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        grad_x = _Grouped.apply(y, grads[0].mT, ctx.counts) if ctx.needs_input_grad[0] else None
        grad_y = _Grouped.apply(x, grads[0], ctx.counts) if ctx.needs_input_grad[1] else None
        return grad_x, grad_y, None, None


def _multiply(x: Tensor, y: Tensor, out: Tensor) -> None:
    if len(x) == 0:
        return
    if is_faster(x, y.mT):
        out.copy_(ops.linear(x, y.mT))
    else:
        torch.mm(x, y, out=out)


def _grouped(x: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool, counts: list[int], at: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):  # torch's function knows no autocast
        product: Any = _Grouped.apply(x.to(weight.dtype), weight if transposed else weight.mT, counts)
        return product if bias is None else product.add_(bias[at])


def computed(module: Any, hidden: Tensor, index: Tensor, weights: Tensor, gate: Gate | None) -> Tensor:
    """The result of `grouped_mm_experts_forward`, in its order: `hidden` `[n, d]`, the others `[n, choices]`."""
    experts, sorting = torch.sort(index.reshape(-1))
    order = _Order(sorting, index.shape[1])
    counts = torch.bincount(experts, minlength=module.num_experts).tolist()
    x: Any = _Chosen.apply(hidden, order)
    names = ("gate_up_proj", "down_proj") if module.has_gate else ("up_proj", "down_proj")
    biases = [getattr(module, f"{name}_bias") if module.has_bias else None for name in names]
    first, second = (getattr(module, name) for name in names)
    x = _grouped(x, first, biases[0], module.is_transposed, counts, experts)
    stock_gate = module._apply_gate if module.has_gate else module.act_fn
    x = stock_gate(x) if gate is None else gate.op(*x.chunk(2, -1))
    x = _grouped(x, second, biases[1], module.is_transposed, counts, experts)
    if module.has_post_expert_norm:
        x = module.post_expert_norm(x)
    x = _Summed.apply(x * weights.reshape(-1)[sorting].unsqueeze(-1), order)
    return x.to(hidden.dtype)


def _library() -> Any:
    # Modules of it are here only if it is loaded; importing it would take seconds.
    return sys.modules.get("transformers.integrations.moe")


def is_experts(module: nn.Module) -> bool:
    """True if transformers' table says how the module computes, and its weights are those of that function."""
    library, forward = _library(), type(module).forward
    is_theirs = library is not None and getattr(forward, "__globals__", None) is vars(library)
    names = {name for name, _ in module.named_parameters(recurse=False)}
    return is_theirs and names <= _WEIGHTS and "down_proj" in names


def is_usual(module: Any) -> bool:
    """True if the module computes by transformers' own `grouped_mm_experts_forward` now."""
    library = _library()
    stock = getattr(library, "grouped_mm_experts_forward", None)
    is_stock = isinstance(stock, types.FunctionType) and stock.__globals__ is vars(library)
    table = library.ALL_EXPERTS_FUNCTIONS
    is_chosen = getattr(module.config, "_experts_implementation", None) == "grouped_mm"
    return (
        is_chosen and is_stock and table.get_interface("grouped_mm", None) is stock and not module._is_expert_parallel
    )


def _has_default_gate(module: Any) -> bool:
    default = vars(_library()).get("_default_apply_gate")
    return "_apply_gate" not in vars(module) and getattr(type(module), "_apply_gate", None) is default


def prove_experts(module: Any, stock: Any) -> tuple[Any, str]:
    """Op of the gate, kind of the activation, dtypes: what a proven forward depends on; or None and why not."""
    if not is_usual(module):
        return None, "it computes by another function than transformers' grouped_mm"
    kind = kind_of(module.act_fn) if module.has_gate and _has_default_gate(module) else None
    reason = ""
    # The empty name, which runs the module's own gate, comes last: it fits where no op does.
    for name, gate in _GATES.items():
        if gate is not None and kind is None:
            continue
        dtypes, reason = proven_dtypes(
            lambda: _made_small(module),
            # torch's grouped products take no float64, which the class's own code does.
            lambda small, x: (stock.__wrapped__ if x.dtype == torch.float64 else stock)(small, *_routed(x)),
            lambda small, x, gate=gate: computed(small, *_routed(x), gate),
            _WIDTH,
        )
        if not reason:
            return (name, kind if gate is not None else (), dtypes), ""
    return None, reason


def _made_small(module: Any) -> nn.Module:
    inner = {"gate_up_proj": 2 * _INNER, "up_proj": _INNER}
    shapes: dict[str, Any] = {}
    for name, _ in module.named_parameters(recurse=False):
        is_down = name.startswith("down")
        wide, narrow = (_WIDTH, _INNER) if is_down else (inner[name.removesuffix("_bias")], _WIDTH)
        sizes = (narrow, wide) if module.is_transposed else (wide, narrow)
        shapes[name] = (3, wide) if name.endswith("_bias") else (3, *sizes)
    small: Any = with_weights(
        stand_in(module, {name: stand_in(child) for name, child in module.named_children()}), shapes
    )
    small.num_experts = 3
    return small


def _routed(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, and for each of them two experts, of which one gets no row, and their weights."""
    rows = x.reshape(-1, _WIDTH)
    places = torch.arange(len(rows))
    index = torch.stack((places % 2 * 2, 2 - places % 2 * 2), 1)
    weights = torch.stack((0.25 + places % 3 / 4, 0.5 - places % 2 / 4), 1)
    return rows, index, weights.to(rows.dtype)


def experts_forward(proven: tuple[str, Any, Proven]) -> Any:
    """The forward of experts, for hidden states, their experts and the weights of these."""
    name, kind, results = proven
    pairs = (pair for pair, _ in results)
    gate, dtypes = _GATES[name], [x for x, weights in pairs if x == weights != torch.float64]

    def compute(module: Any, hidden: Any, index: Any, weights: Any) -> Tensor | None:
        if not all(isinstance(it, Tensor) for it in (hidden, index, weights)) or not hidden.is_cpu:
            return None
        parameters = tuple(module.parameters(recurse=False))
        if torch.compiler.is_compiling() or not takes(hidden, weights, *parameters) or not is_usual(module):
            return None
        fits = hidden.dim() == 2 and index.dim() == 2 and index.shape == weights.shape and index.dtype == torch.int64
        is_one_dtype = all(parameter.dtype == hidden.dtype for parameter in parameters)
        if not fits or not is_one_dtype or hidden.dtype not in dtypes or len(hidden) == 0:
            return None
        if gate is not None and not (_has_default_gate(module) and is_still(module.act_fn, kind)):
            return None
        return computed(module, hidden, index, weights, gate)

    return compute
