"""Gated feed-forwards: down(activation(gate(x)) * up(x)), with one op between the products; gate and up may be one."""

import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import ops
from ..._torch_compat.modules import has_call_hooks
from ...ops._arguments import for_products
from .functions import takes
from .reading import names_of, read_otherwise, reads_only
from .trials import CALLS, Proven, proven_dtypes, stand_in

# Names of the products: gate, up, down, or gate and up as halves of one, down.
_NAMES = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"), ("gate_up_proj", "down_proj"))


@dataclass(frozen=True, slots=True)
class Gate:
    """The step between the products: the op, of both or of their halves, and the activation by itself."""

    op: Callable[..., Tensor]
    activation: Callable[[Tensor], Tensor]


SWIGLU = Gate(ops.swiglu, F.silu)
GEGLU = Gate(ops.geglu, F.gelu)
GEGLU_TANH = Gate(partial(ops.geglu, approximate="tanh"), partial(F.gelu, approximate="tanh"))

Kind = tuple[Any, ...]
"""An activation as far as the proof goes: its class and settings, or the function itself."""


def kind_of(activation: Any) -> Kind | None:
    """The kind of an activation; None for one with more than settings: weights, children, hooks, other code."""
    if not isinstance(activation, nn.Module):
        return (activation,) if reads_only(activation) else None
    attributes = activation.__dict__
    if _is_watched(activation) or any(attributes[name] for name in ("_parameters", "_buffers", "_modules")):
        return None
    values = {name: attributes[name] for name in attributes if not name.startswith("_") and name != "training"}
    settings = tuple((name, comparable(value)) for name, value in values.items())
    try:
        hash(settings)  # the kind is a part of the key of a proof
    except TypeError:
        return None
    is_alone = reads_only(activation, frozenset(values))
    is_alone = is_alone and all(reads_only(value) for value in values.values() if callable(value))
    return (type(activation), *settings) if is_alone else None


def comparable(value: Any) -> Any:
    """A value; for a `partial` of plain keywords these and its function, as it is not equal to its own copy."""
    is_partial = isinstance(value, partial) and not value.args
    is_plain = is_partial and all(isinstance(keyword, bool | int | float | str) for keyword in value.keywords.values())
    return (value.func, *sorted(value.keywords.items())) if is_plain else value


def _is_watched(module: nn.Module) -> bool:
    return has_call_hooks(module) or "forward" in module.__dict__


def is_still(activation: Any, kind: Kind) -> bool:
    """True if an activation is still of the kind that it was, at a call."""
    if not isinstance(activation, nn.Module):
        return activation is kind[0]
    if type(activation) is not kind[0] or _is_watched(activation):
        return False
    return all(comparable(getattr(activation, name, None)) == value for name, value in kind[1:])


def is_gated(module: nn.Module) -> bool:
    """True if a module has the products, perhaps an activation, and no weights of its own."""
    weights = (*module.parameters(recurse=False), *module.buffers(recurse=False))
    return bool(_products(module)) and not weights


def _products(module: nn.Module) -> tuple[str, ...]:
    children = {name for name, _ in module.named_children()}
    return next((names for names in _NAMES if children >= set(names)), ())


class _Product(nn.Module):
    """A small linear layer that notes its calls."""

    def __init__(self, name: str, calls: list[str], seed: int, d_input: int, d_output: int) -> None:
        super().__init__()
        self.name, self.calls = name, calls
        values = torch.randn(d_output, d_input, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)
        self.weight = nn.Parameter(values)

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(self.name)
        return F.linear(x, self.weight)


def _made_small(module: nn.Module, products: tuple[str, ...], activation: str) -> nn.Module:
    calls: list[str] = []
    sizes = ((4, 12), (6, 4)) if len(products) == 2 else ((4, 6), (4, 6), (6, 4))
    children: dict[str, nn.Module] = {
        name: _Product(name, calls, seed, *size) for seed, (name, size) in enumerate(zip(products, sizes, strict=True))
    }
    if isinstance(child := getattr(module, activation, None), nn.Module):
        children[activation] = stand_in(child)
    small = stand_in(module, children)
    vars(small)[CALLS] = calls
    return small


def prove_gated(gate: Gate, module: nn.Module, stock: types.FunctionType) -> tuple[Any, str]:
    """Names of the products and the activation, its kind, dtypes: what a proven forward depends on; or why not."""
    products = _products(module)
    children = {name for name, _ in module.named_children()}
    callables = {name for name, value in vars(module).items() if callable(value)}
    read = sorted(names_of(module, stock) & (callables | children) - {*products})
    activation = read[0] if len(read) == 1 else ""
    others = children - {*products, activation}
    if others:
        return None, f"it has `{min(others)}` beside its products and activation"
    halves = {"chunk"} if len(products) == 2 and not hasattr(module, "chunk") else set()
    if reason := read_otherwise(module, stock, frozenset({*products, activation, *halves})):
        return None, reason
    kind = kind_of(getattr(module, activation)) if activation else ()
    if kind is None:
        return None, "its activation has hooks, or reads more than settings"
    fused = partial(_computed, gate, products)
    dtypes, reason = proven_dtypes(lambda: _made_small(module, products, activation), stock, fused, 4)
    return (products, activation, kind, dtypes), reason


def gated_forward(gate: Gate, proven: tuple[tuple[str, ...], str, Kind, Proven]) -> Callable[[Any, Any], Tensor | None]:
    """The forward of a gated feed-forward, while its activation is what it was."""
    products, activation, kind, results = proven
    dtypes = [x for (x, weights), _ in results if x == weights]

    def compute(module: Any, x: Any) -> Tensor | None:
        if not takes(x) or x.dtype not in dtypes:
            return None
        if activation and not is_still(getattr(module, activation), kind):
            return None
        return _computed(gate, products, module, x)

    return compute


def _computed(gate: Gate, products: tuple[str, ...], module: Any, x: Tensor) -> Tensor:
    if len(products) == 2:
        to_both, down = (getattr(module, name) for name in products)
        both = to_both(x)
        if takes(both) and both.shape[-1] % 2 == 0:
            return down(gate.op(both))
        a, b = both.chunk(2, -1)
        return down(gate.activation(a) * b)
    to_gate, to_up, down = (getattr(module, name) for name in products)
    if type(to_gate) is type(to_up) is nn.Linear and not _is_watched(to_gate) and not _is_watched(to_up):
        x = for_products(x)  # cast for autocast once, not by each of the two products
    a, b = to_gate(x), to_up(x)
    is_taken = takes(a) and takes(b) and a.dtype == b.dtype and a.shape == b.shape
    return down(gate.op(a, b) if is_taken else gate.activation(a) * b)
