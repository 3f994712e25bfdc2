"""Native ops in place of the functions of torch and transformers that a fused model's code calls."""

import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..._torch_compat.modules import recurrent_kernels
from ...ops import half_products
from ...ops.linear import machine_gains
from . import functions
from .eager_attention import with_soft_cap
from .forwards import code_forward, mark, stock_forward
from .rebinding import Use, codes_of, instead_of, rebound
from .rotations import rotating, rotation_of


def cross_entropy_loss(*arguments: Any, **keywords: Any) -> nn.CrossEntropyLoss:
    """`nn.CrossEntropyLoss(...)` in a model's code, whose own code calls the op."""
    loss = nn.CrossEntropyLoss(*arguments, **keywords)
    if (forward := code_forward(stock_forward(nn.CrossEntropyLoss)[0], replacement)) is not None:
        mark(loss, forward)
    return loss


# By torch's function: what stands for a call of it, and the op that this calls.
_STAND_INS: dict[Any, tuple[Callable[..., Any], str]] = {
    F.cross_entropy: (functions.cross_entropy, "cross_entropy"),
    F.linear: (functions.linear, "linear"),
    F.gelu: (functions.gelu, "bias_gelu"),
    F.batch_norm: (functions.batch_norm, "batch_norm"),
    F.layer_norm: (functions.layer_norm, "layer_norm"),
    F.rms_norm: (functions.rms_norm, "rms_norm"),
    F.scaled_dot_product_attention: (functions.attention, "attention"),
    F.dropout: (functions.dropout, "dropout"),
    torch.lstm: (functions.lstm, "lstm"),
    nn.CrossEntropyLoss: (cross_entropy_loss, "cross_entropy"),
}
if half_products.SLOW:
    # torch's own fail in 16 bits on such a CPU, or are slow.
    _STAND_INS |= {
        it: (partial(functions.recurrent, it), f"{it.__name__} in float32")
        for it in (torch.gru, torch.rnn_tanh, torch.rnn_relu)
    }
_BY_NAME = {it.__name__: it for it in _STAND_INS}
_NAMESPACES = (torch, nn, F, recurrent_kernels)
_CALLED = (types.FunctionType, types.BuiltinFunctionType, type)


class Namespace(types.ModuleType):
    """`torch`, `torch.nn` or its functions as a model's code finds them, with native ops in the place of theirs.

    Every name is looked up in the real module when it is asked for.
    """

    def __init__(self, find: Callable[[], Any]) -> None:
        super().__init__(find().__name__)
        # Long names, since any short one may be asked for as a name of torch.
        vars(self).update(_burnlike_find=find, _burnlike_parts={})

    def __getattr__(self, name: str) -> Any:
        real = vars(self)["_burnlike_find"]()
        value = getattr(real, name)
        if isinstance(value, types.ModuleType) and value in _NAMESPACES:
            parts = vars(self)["_burnlike_parts"]
            if name not in parts:
                parts[name] = Namespace(lambda: getattr(vars(self)["_burnlike_find"](), name))
            return parts[name]
        stock = _BY_NAME.get(name)
        return value if stock is None or value is not stock else _STAND_INS[stock][0]


class AttentionFunctions:
    """transformers' table of attention functions: torch's has the native op, also where it is looked up later.

    So have the model's own steps (`eager`), with a soft cap.
    """

    def __init__(self, find: Callable[[], Any], eager: Any) -> None:
        self.find = find
        new, self.ops = rebound(find()["sdpa"], replacement)
        self.new: dict[Any, Callable[..., Any]] = {find()["sdpa"]: new}
        if (capped := with_soft_cap(eager)) is not None:
            self.new[eager] = capped

    def get_interface(self, *arguments: Any, **keywords: Any) -> Callable[..., Any]:
        stock: Callable[..., Any] = self.find().get_interface(*arguments, **keywords)
        return self.new.get(stock, stock)


def replacement(function: types.FunctionType, name: str, uses: list[Use]) -> tuple[Any, tuple[str, ...]]:
    """The fused replacement of a global of a stock function, by how it is used, and its native ops."""
    namespace = function.__globals__
    value: Any = namespace.get(name)
    if isinstance(value, types.ModuleType):
        ops = _ops_of(function, value, uses) if value in _NAMESPACES else ()
        return (Namespace(lambda: namespace[name]), ops) if ops else (None, ())
    if isinstance(value, Mapping):
        only_asked = all(use == Use(("get_interface",), called=True) for use in uses)
        if not (hasattr(value, "get_interface") and "sdpa" in value and only_asked):
            return None, ()
        table = AttentionFunctions(lambda: namespace[name], namespace.get("eager_attention_forward"))
        return table, table.ops
    if any(use.attributes or not use.called for use in uses):
        return None, ()
    if _is_replaced(function, value):
        new, op = _STAND_INS[value]
        return instead_of(function, name, new), (op,)
    if name == "apply_rotary_pos_emb" and (rotation := rotation_of(value)) is not None:
        return instead_of(function, name, rotating(value, rotation)), ("rotary",)
    return None, ()


def _is_replaced(function: types.FunctionType, value: Any) -> bool:
    if value is F.gelu:  # exact, it is torch's: code that has no "tanh" calls no other
        return any("tanh" in code.co_consts for code in codes_of(function.__code__))
    return isinstance(value, _CALLED) and value in _STAND_INS and (value is not F.linear or machine_gains())


def _ops_of(function: types.FunctionType, value: Any, uses: list[Use]) -> tuple[str, ...]:
    """The ops behind uses of a module of torch; none where one of their functions is more than called."""
    ops: set[str] = set()
    for use in uses:
        value_used = value
        for name in use.attributes:  # from `torch` by `nn.functional` to `relu`
            value_used = getattr(value_used, name, None)
        if any(value_used is namespace for namespace in _NAMESPACES):
            return ()
        if _is_replaced(function, value_used):
            if not use.called:
                return ()
            ops.add(_STAND_INS[value_used][1])
    return tuple(sorted(ops))
