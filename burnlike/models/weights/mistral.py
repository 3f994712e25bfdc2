"""Weights of Mistral, as transformers' `MistralForCausalLM` has them. Imports no torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..language_configs import DecoderLmConfig, GatedPart
from .llama import LLAMA, decoder_config
from .options import activation_of, refuse_others


def config_of(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", attention_bias=False, mlp_bias=False)
    return decoder_config(values, n_heads_kv=8).replace(
        sliding_window=values.get("sliding_window", 4096),
        feed_forward=GatedPart(activation=activation_of(values, "silu")),
    )


MISTRAL = replace(
    LLAMA,
    name="mistral",
    model_types=("mistral",),
    architectures=("MistralForCausalLM", "MistralModel"),
    config=config_of,
)
