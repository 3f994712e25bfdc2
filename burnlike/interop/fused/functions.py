"""Functions of torch and transformers in a model's code, and what stands for them in a fused model.

Each has the signature of the stock function, and calls it for what the native op does not compute.
"""

import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import ops
from .rebinding import is_plain, rebound
from .trials import agree, numbers
from .usable import takes


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`F.layer_norm`."""
    if len(normalized_shape) != 1 or weight is None or not takes(input, weight, bias):
        return F.layer_norm(input, normalized_shape, weight, bias, eps)
    return ops.layer_norm(input, weight, bias, eps)


def scaled_rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """The native op, whose product with a weight of more bits has these, as in torch's promotion."""
    return ops.rms_norm(x, weight, epsilon).to(torch.promote_types(x.dtype, weight.dtype))


def _rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    if len(normalized_shape) != 1 or weight is None or not takes(input, weight):
        return F.rms_norm(input, normalized_shape, weight, eps)
    return scaled_rms_norm(input, weight, torch.finfo(input.dtype).eps if eps is None else eps)


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: Any = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    is_usual = weight is None and size_average is None and reduce is None and input.dim() == 2
    if not is_usual or target.dtype != torch.int64 or not takes(input):
        return F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    return ops.cross_entropy(
        input, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if dropout_p > 0 or query.dim() != 4 or not takes(query):
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    return ops.attention(query, key, value, attn_mask, is_causal, scale)


def _rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    # Tables of [batch, sequence, d], each column twice; heads are in the dimension `unsqueeze_dim`.
    half = cos.shape[-1] // 2
    heads_first = unsqueeze_dim == 1
    query, key = (q, k) if heads_first else (q.transpose(1, 2), k.transpose(1, 2))
    native = takes(q, cos, sin) and q.dtype == k.dtype and not cos.requires_grad
    turn = ops.rotary if native else ops.rotary_reference
    query, key = turn(query, key, cos[..., :half], sin[..., :half])
    return (query, key) if heads_first else (query.transpose(1, 2), key.transpose(1, 2))


def causal_lm_loss(
    logits: Tensor,
    labels: Tensor | None,
    vocab_size: int,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    shift_labels: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """transformers' loss of causal language models, without a float32 copy of the logits.

    Args:
        logits: `[batch, sequence, vocab_size]`.
        labels: `[batch, sequence]`, compared with the logits of the token before each.
        vocab_size: of the logits.
        num_items_in_batch: what the sum of losses is divided by; None for the number of labels that count.
        ignore_index: of labels that don't.
        shift_labels: in the place of labels: each compared with the logits at its place.
    """
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]  # pyright: ignore[reportArgumentType]
    targets = shift_labels.reshape(-1).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    with torch.autocast(logits.device.type, enabled=logits.dtype in (torch.bfloat16, torch.float16)):  # a float32 loss
        loss = _cross_entropy(logits.view(-1, vocab_size), targets, ignore_index=ignore_index, reduction=reduction)
    if isinstance(num_items_in_batch, Tensor):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss if num_items_in_batch is None else loss / num_items_in_batch


def masked_lm_loss(
    logits: Tensor,
    labels: Tensor,
    vocab_size: int,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    **_: Any,
) -> Tensor:
    """transformers' loss of masked language models; as `causal_lm_loss` with labels at their places."""
    return causal_lm_loss(logits, None, vocab_size, num_items_in_batch, ignore_index, labels)


# By the name of a loss in transformers.loss.loss_utils.
LOSSES: dict[str, Callable[..., Tensor]] = {"ForCausalLMLoss": causal_lm_loss, "ForMaskedLMLoss": masked_lm_loss}


# By torch's function: what stands for it, and the op that it then calls.
_FUNCTIONS: dict[Callable[..., Any], tuple[Callable[..., Any], str]] = {
    F.cross_entropy: (_cross_entropy, "cross_entropy"),
    F.layer_norm: (layer_norm, "layer_norm"),
    F.rms_norm: (_rms_norm, "rms_norm"),
    F.scaled_dot_product_attention: (_attention, "attention"),
}
_OPS_BY_NAME = {function.__name__: op for function, (_, op) in _FUNCTIONS.items()}


class FusedCrossEntropyLoss(nn.CrossEntropyLoss):
    """`nn.CrossEntropyLoss` with the native op."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, as that of the class above."""
        return _cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


@cache
def _namespaces() -> dict[types.ModuleType, types.ModuleType]:
    """`torch.nn.functional` with fused functions, and `torch.nn` and `torch` that lead to it."""
    functional = _copy(F, {function.__name__: new for function, (new, _) in _FUNCTIONS.items()})
    layers = _copy(nn, {"functional": functional, "CrossEntropyLoss": FusedCrossEntropyLoss})
    return {F: functional, nn: layers, torch: _copy(torch, {"nn": layers})}


def _copy(module: types.ModuleType, changed: dict[str, Any]) -> types.ModuleType:
    made = types.ModuleType(module.__name__)
    vars(made).update({**vars(module), **changed})
    return made


class _AttentionFunctions:
    """transformers' table of attention functions, each with the native op in the place of torch's."""

    def __init__(self, table: Any) -> None:
        self.table = table
        made = {name: rebound(table[name], replacement) for name in table}
        self.functions = {name: function for name, (function, names) in made.items() if names}

    def get_interface(self, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        found = self.functions.get(name)
        return self.table.get_interface(name, default) if found is None else found


def replacement(value: Any, names: frozenset[str]) -> tuple[Any, tuple[str, ...]]:
    """What stands for a global of a stock function whose code uses these names, and the ops that this brings."""
    if isinstance(value, types.ModuleType):
        return _namespace(value, names)
    if value is nn.CrossEntropyLoss:
        return FusedCrossEntropyLoss, ("cross_entropy",)
    if isinstance(value, Mapping) and hasattr(value, "get_interface") and "sdpa" in value:
        return _AttentionFunctions(value), ("attention",)
    for function, (new, op) in _FUNCTIONS.items():
        if value is function:
            return new, (op,)
    if getattr(value, "__name__", "") == "apply_rotary_pos_emb" and is_plain(value) and _is_rotary(value):
        return _rotary, ("rotary",)
    return value, ()


def _is_rotary(function: Any) -> bool:
    """Whether it rotates the halves of the last dimension, which there are other layouts than."""
    query, key, angles = numbers(2, 4, 3, 8), numbers(2, 2, 3, 8), numbers(2, 3, 4)
    cos, sin = (table.repeat(1, 1, 2) for table in (angles.cos(), angles.sin()))
    return not agree(lambda: function(query, key, cos, sin), lambda: _rotary(query, key, cos, sin))


def _namespace(module: types.ModuleType, names: frozenset[str]) -> tuple[Any, tuple[str, ...]]:
    ops_of_names = {_OPS_BY_NAME[name] for name in names & _OPS_BY_NAME.keys()}
    if module in (nn, torch) and "functional" not in names:
        ops_of_names = set()
    if module in (nn, torch) and "CrossEntropyLoss" in names:
        ops_of_names.add("cross_entropy")
    if module not in (F, nn, torch) or not ops_of_names:
        return module, ()
    return _namespaces()[module], tuple(sorted(ops_of_names))
