"""Context parallelism: which models take parts of sequences, and how their attention learns of them."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from ...errors import ConfigError
from ...nn.attention.attend import attend_visible
from ...nn.attention.attend_divided import attend_parts, whole_keys
from ...nn.divided_sequence import NAME, DividedSequence, divided

_NAME = "burnlike_divided"
_ROPE = ("default", "linear", "llama3", "yarn")
"""Kinds of rotations that do not depend on the length of a sequence."""
_LAYERS = ("full_attention", "sliding_attention")
_TENSORS = ("position_ids", "cache_position")
"""Tensors that models hand to their attention, which it does not need."""


def divide_sequences(model: nn.Module, sequence: DividedSequence) -> None:
    """Let all parts of a model ask `sequence` whether they get parts of sequences."""
    for module in model.modules():
        module.__dict__[NAME] = sequence
    base: Any = getattr(sys.modules.get("transformers"), "PreTrainedModel", ())
    for module in model.modules():
        if isinstance(module, base):
            use_divided_attention(module)


def use_divided_attention(model: Any) -> None:
    """Let a PreTrainedModel attend over the parts of all processes, where its sequences are divided.

    One whose attention can't be replaced keeps it, and is refused by the proof of the first step.

    Raises:
        ConfigError: its attention depends on the length of a sequence.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    config = model.config.get_text_config()
    for kind in _rope_types(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)):
        if kind not in _ROPE:
            raise _refusal(model, f"its rotation ({kind}) depends on the length of a sequence")
    for kind in getattr(config, "layer_types", None) or ():
        if kind not in _LAYERS:
            raise _refusal(model, f"it has layers of {kind}")
    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    model.set_attn_implementation(_NAME)


def _rope_types(parameters: Any) -> Iterator[str]:
    if isinstance(parameters, Mapping):
        yield from (str(parameters[name]) for name in ("rope_type", "type") if parameters.get(name) is not None)
        for nested in parameters.values():
            yield from _rope_types(nested)


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention by transformers' interface: `[batch, heads, length, d_head] -> [batch, length, heads, d_head]`."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    sequence = divided(module)
    if sequence is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    window = options.get("sliding_window")
    if "sliding_window" not in options and getattr(module.config, "sliding_window", None) is not None:
        raise _refusal(module, "it does not say the window of its attention")
    if unknown := [name for name, it in options.items() if isinstance(it, Tensor) and name not in _TENSORS]:
        raise _refusal(module, f"its attention takes {', '.join(unknown)}")
    d_head = query.shape[-1]
    if (scaling := options.get("scaling")) is not None:
        query = query * (scaling * d_head**0.5)
    rules: dict[str, Any] = {"soft_cap": options.get("softcap"), "dropout": options.get("dropout", 0.0)}
    is_causal = options.get("is_causal")
    if getattr(module, "is_causal", True) if is_causal is None else is_causal:
        attended = attend_parts(query, key, value, sequence, sliding_window=window, **rules)
    else:
        key, value = whole_keys(key, value, sequence)
        hidden = key.new_zeros(1, key.shape[2]).bool() if sequence.hidden is None else sequence.hidden
        visible = ~hidden[:, None, None].expand(-1, 1, query.shape[2], -1)
        attended = attend_visible(query, key, value, visible, **rules)
    return attended.unflatten(-1, (-1, value.shape[-1])), None


def _refusal(model: Any, problem: str) -> ConfigError:
    return ConfigError(f"distributed.context: {type(model).__name__} can't take parts of sequences: {problem}")
