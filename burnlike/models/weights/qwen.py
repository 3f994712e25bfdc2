"""Weights of Qwen 2 and 3, as transformers' `Qwen2ForCausalLM` and `Qwen3ForCausalLM` have them. Imports no torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...errors import ConfigError
from ..language_configs import DecoderLmConfig, GatedPart
from .llama import ATTENTION, GATED, LLAMA, decoder_config
from .options import activation_of, int_of, refuse_others, shown


def qwen2_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", use_mrope=False)
    return decoder_config(values, n_heads_kv=32).replace(
        attention_bias=True,
        sliding_window=_window_of(values),
        feed_forward=GatedPart(activation=activation_of(values, "silu")),
    )


def qwen3_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    bias = values.get("attention_bias", False)
    return qwen2_config(values).replace(
        d_head=values.get("head_dim", 128), attention_bias=bias, attention_output_bias=bias, query_key_norm=True
    )


def _window_of(values: Mapping[str, Any]) -> int | None:
    """The sliding window of all layers, or None; a ConfigError where only some layers have one."""
    layers, full = int_of(values, "num_hidden_layers", 32), int_of(values, "max_window_layers", 28)
    window = values.get("sliding_window", 4096)
    window = window if values.get("use_sliding_window", False) else None
    kinds = values.get("layer_types")
    if kinds is None:
        kinds = [_SLIDING if window is not None and at >= full else _FULL for at in range(min(layers, 4096))]
    wanted = [_FULL] if window is None else [_SLIDING, _FULL]
    if not isinstance(kinds, list) or len(kinds) != layers or all(kinds != [it] * layers for it in wanted):
        raise ConfigError(
            "DecoderLm has no such model\n"
            f"  layer_types: expected {' or '.join(wanted)} in all of {layers} layers, got {shown(kinds)}"
        )
    return window if kinds[0] == _SLIDING else None


_SLIDING, _FULL = "sliding_attention", "full_attention"

# Llama's with biases of queries, keys and values.
QWEN2 = replace(
    LLAMA,
    name="qwen2",
    model_types=("qwen2",),
    architectures=("Qwen2ForCausalLM", "Qwen2Model"),
    config=qwen2_config,
)

_OURS, _THEIRS = "blocks.{i}.attention", "model.layers.{i}.self_attn"

# Norms of queries and keys in place of the biases.
QWEN3 = replace(
    LLAMA,
    name="qwen3",
    model_types=("qwen3",),
    architectures=("Qwen3ForCausalLM", "Qwen3Model"),
    config=qwen3_config,
    tensors={
        **ATTENTION,
        f"{_OURS}.norm_query.weight": f"{_THEIRS}.q_norm.weight",
        f"{_OURS}.norm_key.weight": f"{_THEIRS}.k_norm.weight",
        **GATED,
    },
)
