"""Weights of Mixtral, as the files of transformers' `MixtralForCausalLM` have them. Imports no torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..language_configs import DecoderLmConfig, ExpertsPart
from .llama import ATTENTION, LLAMA, decoder_config
from .options import activation_of, refuse_others


def config_of(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", router_jitter_noise=0.0, attention_bias=False)
    experts = ExpertsPart(
        n_experts=values.get("num_local_experts", 8),
        n_selected=values.get("num_experts_per_tok", 2),
        activation=activation_of(values, "silu"),
        balance=values.get("router_aux_loss_coef", 0.001),
    )
    config = decoder_config(values, theta=1000000.0, n_heads_kv=8, epsilon=1e-5)
    return config.replace(sliding_window=values.get("sliding_window"), feed_forward=experts)


_OURS, _THEIRS = "blocks.{i}.feed_forward", "model.layers.{i}.block_sparse_moe"

MIXTRAL = replace(
    LLAMA,
    name="mixtral",
    model_types=("mixtral",),
    architectures=("MixtralForCausalLM", "MixtralModel"),
    config=config_of,
    tensors={
        **ATTENTION,
        f"{_OURS}.router.weight": f"{_THEIRS}.gate.weight",
        f"{_OURS}.experts.{{j}}.gate.linear_inner.weight": f"{_THEIRS}.experts.{{j}}.w1.weight",
        f"{_OURS}.experts.{{j}}.gate.linear_outer.weight": f"{_THEIRS}.experts.{{j}}.w3.weight",
        f"{_OURS}.experts.{{j}}.linear.weight": f"{_THEIRS}.experts.{{j}}.w2.weight",
    },
)
