"""Weights of Qwen 2 and 3, as transformers' `Qwen2ForCausalLM` and `Qwen3ForCausalLM` have them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError
from ..decoder_lm_configs import DecoderLmConfig, GatedPart
from .llama import ATTENTION, GATED, IGNORED, TIED, decoder_config
from .options import activation_of
from .table import WeightTable


def qwen2_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    """The config of transformers' Qwen 2, of its `config.json`: Llama's with biases of queries, keys and values.

    Raises:
        ConfigError: it has options that ours does not have.
    """
    return decoder_config(values).replace(
        attention_bias=True,
        sliding_window=_window_of(values),
        feed_forward=GatedPart(activation=activation_of(values.get("hidden_act", "silu"))),
    )


def qwen3_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    """The config of transformers' Qwen 3, of its `config.json`: norms of queries and keys in place of the biases.

    Raises:
        ConfigError: it has options that ours does not have.
    """
    bias = values.get("attention_bias", False)
    return qwen2_config(values).replace(
        d_head=values.get("head_dim", 128), attention_bias=bias, attention_output_bias=bias, query_key_norm=True
    )


def _window_of(values: Mapping[str, Any]) -> int | None:
    """The sliding window of all layers, or None.

    Raises:
        ConfigError: some layers have one, and others do not.
    """
    window = values.get("sliding_window", 4096)
    if not values.get("use_sliding_window", False) or window is None:
        return None
    full = values.get("max_window_layers", 28)
    slides = [it == "sliding_attention" for it in values.get("layer_types") or ()]
    slides = slides or [layer >= full for layer in range(values["num_hidden_layers"])]
    if any(slides) and not all(slides):
        raise ConfigError(
            "config.json: DecoderLm has no such model\n"
            f"  layer_types: expected a sliding window in all layers or none, got it in {sum(slides)} of {len(slides)}"
        )
    return window if all(slides) else None


QWEN2 = WeightTable(
    name="qwen2",
    model_types=("qwen2",),
    config=qwen2_config,
    tensors={**ATTENTION, **GATED},
    tied=TIED,
    ignored=IGNORED,
)

_OURS, _THEIRS = "blocks.{i}.attention", "model.layers.{i}.self_attn"

QWEN3 = WeightTable(
    name="qwen3",
    model_types=("qwen3",),
    config=qwen3_config,
    tensors={
        **ATTENTION,
        f"{_OURS}.norm_query.weight": f"{_THEIRS}.q_norm.weight",
        f"{_OURS}.norm_key.weight": f"{_THEIRS}.k_norm.weight",
        **GATED,
    },
    tied=TIED,
    ignored=IGNORED,
)
