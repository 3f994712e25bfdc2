"""Native ops in place of the functions of torch and transformers that a fused model's code calls.

transformers computes attention with a soft cap in steps of torch, which return the weights too; models pass them on
when they are asked for. The op has none: in their place is a tensor that the steps compute when something reads it.
"""

import inspect
import types
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import ops
from ..._torch_compat.modules import has_call_hooks, recurrent_kernels
from ..._torch_compat.tensors import times_written
from ..._torch_compat.wrappers import as_plain, tensor_without_memory
from ...errors import AutodiffError
from ...ops import half_products
from ...ops._arguments import autocast_dtype
from ...ops._function import is_transformed
from ...ops._library import cpu_isa
from ...ops.linear import machine_gains
from . import functions
from .functions import takes_attention
from .lazy_logits import LazyTensor
from .rebinding import Use, codes_of, helpers_unchanged, instead_of, is_plain, rebound
from .rotations import rotating, rotation_of
from .trials import numbers, same_attention

_LEAST_SEEN = -1e4
"""Masks add less than this to the scores of keys that are hidden."""

_ARGUMENTS = ("module", "query", "key", "value", "attention_mask", "dropout", "scaling", "softcap", "kwargs")


def with_soft_cap(stock: Any) -> Callable[..., Any] | None:
    """transformers' steps of attention with the op where there is a soft cap; None where they compute anything else."""
    if not is_plain(stock) or tuple(inspect.signature(stock).parameters) != _ARGUMENTS or not _is_same(stock):
        return None
    is_proven = helpers_unchanged(stock)

    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **keywords: Any) -> Any:
        # A program may replace a helper (`repeat_kv`) after the proof; then its own code runs.
        if not is_proven() or not _takes(module, query, key, value, attention_mask, keywords):
            return stock(module, query, key, value, attention_mask, **keywords)
        output = _attended(module, query, key, value, attention_mask, **keywords)
        shape = (*query.shape[:-1], key.shape[-2])
        strides = torch.empty(shape, device="meta").stride()
        weights = tensor_without_memory(LazyWeights, shape, strides, query.dtype, query.device)
        weights.recipe = _Weights(stock, (module, query, key, value, attention_mask), keywords)
        return output, weights

    return attend


def _attended(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **keywords: Any) -> Tensor:
    scale = keywords.get("scaling")
    scale = module.head_dim**-0.5 if scale is None else scale
    return ops.attention(query, key, value, mask, False, scale, keywords["softcap"]).transpose(1, 2).contiguous()


def _is_same(stock: Callable[..., Any]) -> bool:
    """True if both attend alike in bfloat16, the only dtype for which the op is taken, on CPUs that multiply it."""
    module = SimpleNamespace(head_dim=8, num_key_value_groups=2, training=True)
    if cpu_isa() != "avx512_bf16":
        return False

    def inputs() -> list[Tensor]:
        heads = [numbers(2, count, length, 8) for count, length in ((4, 3), (2, 5), (2, 5))]
        return [*heads, numbers(2, 1, 3, 5)]

    return same_attention(stock, _attended, module, inputs)


def _takes(module: Any, query: Any, key: Any, value: Any, mask: Any, keywords: dict[str, Any]) -> bool:
    """True for arguments that the op takes. In training alone: there autograd refuses writes to what it has saved."""
    cap, scale = keywords.get("softcap"), keywords.get("scaling")
    if not isinstance(cap, int | float) or not 0.0 < cap < float("inf") or keywords.get("dropout", 0.0) != 0:
        return False
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or not getattr(query, "requires_grad", False):
        return False
    if not takes_attention(query, key, value, mask, False, scale, True) or is_transformed():
        return False
    if query.dtype != torch.bfloat16 or autocast_dtype(query) is not None or cpu_isa() != "avx512_bf16":
        return False
    if has_call_hooks(module):
        return False  # which may read the weights
    if query.shape[1] != key.shape[1] * module.num_key_value_groups:
        return False
    if mask is None:
        return True
    # A query that sees nothing has equal weights for all keys, or NaN, in the steps alone.
    return mask.dtype == query.dtype and not mask.requires_grad and mask.amax(-1).amin().item() > _LEAST_SEEN


class _Weights:
    """The recipe of lazy weights: the library's steps, with the grad mode of the forward pass."""

    def __init__(self, stock: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.stock, self.arguments, self.keywords = stock, arguments, keywords
        self.values: Tensor | None = None
        self.written = self._times_written()

    def _times_written(self) -> list[int]:
        return [times_written(argument) for argument in self.arguments if isinstance(argument, Tensor)]

    def read(self) -> Tensor:
        if self.values is None:
            if self._times_written() != self.written:
                raise AutodiffError(
                    "weights of attention are computed when they are first read, and its queries, keys or mask were"
                    " written to since; read them before, or call burnlike.interop.unfuse(model)"
                )
            with torch.inference_mode(False), as_plain(), torch.enable_grad():
                self.values = self.stock(*self.arguments, **self.keywords)[1]
        assert self.values is not None
        return self.values


class LazyWeights(LazyTensor):
    """Weights of attention `[batch, heads, queries, keys]`, of which nothing is computed yet, or all."""


_STOCK_FORWARD = nn.CrossEntropyLoss.forward


def cross_entropy_loss(*arguments: Any, **keywords: Any) -> nn.CrossEntropyLoss:
    """`nn.CrossEntropyLoss(...)` in a model's code; torch's own where a program has put another forward there."""
    is_stock = nn.CrossEntropyLoss.forward is _STOCK_FORWARD
    return (CrossEntropyLoss if is_stock else nn.CrossEntropyLoss)(*arguments, **keywords)


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
if half_products.SLOW_RECURRENT:
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

    def __getattribute__(self, name: str) -> Any:
        # A module's own search, which fails first and makes its error, takes most of the time of a look-up.
        return super().__getattribute__(name) if name[:2] == "__" else Namespace.__getattr__(self, name)

    def __getattr__(self, name: str) -> Any:
        names = types.ModuleType.__getattribute__(self, "__dict__")
        value = getattr(names["_burnlike_find"](), name)
        if isinstance(value, types.ModuleType) and value in _NAMESPACES:
            parts = names["_burnlike_parts"]
            if name not in parts:
                parts[name] = Namespace(lambda: getattr(names["_burnlike_find"](), name))
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


class CrossEntropyLoss(nn.CrossEntropyLoss):
    """`nn.CrossEntropyLoss` whose own code calls the op; a class, which torch.compile traces where a model makes it."""

    forward = rebound(_STOCK_FORWARD, replacement)[0]
