"""Attention of models of transformers whose rows are not one text each: they are parts of sequences that several
processes share, or prompts with their answers.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from ...errors import ConfigError
from ...module.printing.values import type_text
from ...nn.attention.attend import attend_visible
from ...nn.attention.attend_divided import attend_parts, whole_keys
from ...nn.attention.shared_prompts import SharedPrompts, prompts_shared, shared_prompts
from ...nn.divided_sequence import divided

_DIVIDED, _SHARED = "burnlike_divided", "burnlike_shared"
_ROPE = ("default", "linear", "llama3", "yarn")
"""Kinds of rotations that do not depend on the length of a sequence."""
_LAYERS = ("full_attention", "sliding_attention")
_TENSORS = ("position_ids", "cache_position")
"""Tensors that models hand to their attention, which it does not need."""


def use_divided_attention(model: Any) -> None:
    """Let a PreTrainedModel attend over the parts of all processes, where its sequences are divided.

    One whose attention can't be replaced keeps it, and is refused by the proof of the first step.

    Raises:
        ConfigError: its attention depends on the length of a sequence.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if problem := dependence_on_length(model):
        raise _refusal(model, problem)
    AttentionInterface.register(_DIVIDED, _attention)
    AttentionMaskInterface.register(_DIVIDED, sdpa_mask)
    model.set_attn_implementation(_DIVIDED)


@contextmanager
def sharing_prompts(model: Any, layout: SharedPrompts) -> Iterator[None]:
    """Let a PreTrainedModel whose attention does not depend on the length of a sequence take its rows for prompts with
    their answers within the `with` block.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(_SHARED, _attention)  # without a kind of mask: the model makes none
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}.values()
    before = [(it, it._attn_implementation) for it in configs if hasattr(it, "_attn_implementation")]
    try:
        for config, _ in before:
            config._attn_implementation_internal = _SHARED
        with prompts_shared(layout):
            yield
    finally:
        for config, name in before:
            config._attn_implementation_internal = name  # of it alone, not of those within it


def dependence_on_length(model: Any) -> str:
    """The way a model's attention depends on the length of a sequence; empty where it does not."""
    config = model.config.get_text_config()
    for kind in _rope_types(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)):
        if kind not in _ROPE:
            return f"its rotation ({kind}) depends on the length of a sequence"
    kinds = (it for it in getattr(config, "layer_types", None) or () if it not in _LAYERS)
    return next((f"it has layers of {kind}" for kind in kinds), "")


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

    sequence, shared = divided(module), shared_prompts()
    if sequence is None and shared is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    window = options.get("sliding_window")
    if "sliding_window" not in options and getattr(module.config, "sliding_window", None) is not None:
        raise _refusal(module, "it does not say the window of its attention")
    if unknown := [name for name, option in options.items() if isinstance(option, Tensor) and name not in _TENSORS]:
        raise _refusal(module, f"its attention takes {', '.join(unknown)}")
    d_head = query.shape[-1]
    if (scaling := options.get("scaling")) is not None and scaling != d_head**-0.5:
        query = query * (scaling * d_head**0.5)
    rules: dict[str, Any] = {"soft_cap": options.get("softcap"), "dropout": options.get("dropout", 0.0)}
    is_causal = options.get("is_causal")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if sequence is None:
        if shared is None or not is_causal:
            raise _refusal(module, "its attention sees what is behind a position")
        attended = shared.attend(query, key, value, sliding_window=window, **rules)
    elif is_causal:
        attended = attend_parts(query, key, value, sequence, sliding_window=window, **rules)
    else:
        key, value = whole_keys(key, value, sequence)
        hidden = key.new_zeros(1, key.shape[2]).bool() if sequence.hidden is None else sequence.hidden
        visible = ~hidden[:, None, None].expand(-1, 1, query.shape[2], -1)
        attended = attend_visible(query, key, value, visible, **rules)
    return attended.unflatten(-1, (-1, value.shape[-1])), None


def _refusal(model: Any, problem: str) -> ConfigError:
    if shared_prompts() is not None:
        return ConfigError(f"{type_text(model)} can't read a prompt once for all of its answers: {problem}")
    return ConfigError(f"distributed.context: {type_text(model)} can't take parts of sequences: {problem}")
