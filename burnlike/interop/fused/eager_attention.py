"""Attention with a soft cap, which transformers computes in steps of torch, by the op.

The steps return the weights too, which models pass on when they are asked for. The op has none: in their place is a
tensor that is computed by the steps when something reads it.
"""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from ... import ops
from ..._torch_compat.modules import CALL_HOOKS, has_global_hooks
from ..._torch_compat.tensors import times_written
from ..._torch_compat.wrappers import as_plain, tensor_without_memory
from ...errors import AutodiffError
from ...ops._arguments import autocast_dtype
from ...ops._function import is_transformed
from ...ops._library import cpu_isa
from .functions import takes_attention
from .lazy_logits import LazyTensor
from .rebinding import helpers_unchanged, is_plain
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
    if has_global_hooks() or any(len(getattr(module, name)) > 0 for name in CALL_HOOKS):
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
