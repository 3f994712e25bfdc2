"""Weights of Llama, as transformers' `LlamaForCausalLM` has them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError
from ...nn.attention.scaling_configs import DynamicScaling, LinearScaling, Llama3Scaling, RotaryScaling, YarnScaling
from ..decoder_lm_configs import DecoderLmConfig, GatedPart, RotaryPositions
from .options import activation_of, refuse_others
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> DecoderLmConfig:
    """The config of transformers' model, of its `config.json`.

    Raises:
        ConfigError: it has options that ours does not have.
    """
    refuse_others(values, "DecoderLm", pretraining_tp=1)
    bias = values.get("attention_bias", False)
    feed_forward = GatedPart(
        activation=activation_of(values.get("hidden_act", "silu")), bias=values.get("mlp_bias", False)
    )
    return decoder_config(values).replace(attention_bias=bias, attention_output_bias=bias, feed_forward=feed_forward)


def decoder_config(values: Mapping[str, Any], theta: float = 10000.0) -> DecoderLmConfig:
    """The config of a model whose blocks have the layout of Llama's.

    Args:
        values: the content of `config.json`.
        theta: where it has none.

    Raises:
        ConfigError: it has options that ours does not have.
    """
    refuse_others(values, "DecoderLm", attention_dropout=0.0)
    longest = values["max_position_embeddings"]
    # Files of transformers 4 have the base beside the scaling, and none of the latter where there is no scaling.
    rope = {**(values.get("rope_scaling") or {}), **(values.get("rope_parameters") or {})}
    return DecoderLmConfig(
        vocab_size=values["vocab_size"],
        max_sequence_length=longest,
        d_model=values["hidden_size"],
        n_layers=values["num_hidden_layers"],
        n_heads=values["num_attention_heads"],
        n_heads_kv=values.get("num_key_value_heads"),
        d_head=values.get("head_dim"),
        d_ff=values["intermediate_size"],
        theta=rope.get("rope_theta", values.get("rope_theta", theta)),
        norm_epsilon=values.get("rms_norm_eps", 1e-6),
        positions=RotaryPositions(interleaved=False, scaling=scaling_of(rope, longest)),
        tied=values.get("tie_word_embeddings", False),
    )


def scaling_of(rope: Mapping[str, Any], longest: int) -> RotaryScaling | None:
    """The scaling of rotary frequencies.

    Args:
        rope: the `rope_parameters` or `rope_scaling` of a `config.json`.
        longest: its `max_position_embeddings`.

    Raises:
        ConfigError: ours does not have it.
    """
    refuse_others(rope, "RotaryEncoding", partial_rotary_factor=1.0, mscale=None, mscale_all_dim=None)
    kind = rope.get("rope_type", rope.get("type", "default"))
    factor, original = rope.get("factor", 1.0), rope.get("original_max_position_embeddings", longest)
    match kind:
        case "default":
            return None
        case "linear":
            return LinearScaling(factor=factor)
        case "dynamic":
            return DynamicScaling(factor=factor, original_length=longest)
        case "llama3":
            factors = {name: rope[name] for name in ("low_freq_factor", "high_freq_factor")}
            return Llama3Scaling(factor=factor, original_length=original, **factors)
        case "yarn":
            names = ("beta_fast", "beta_slow", "attention_factor", "truncate")
            given = {name: rope[name] for name in names if rope.get(name) is not None}
            return YarnScaling(factor=factor, original_length=original, **given)
        case _:
            known = "default, linear, dynamic, llama3, yarn"
            raise ConfigError(f"rope_type: expected one of {known}, got {kind!r}")


_BLOCK, _THEIRS = "blocks.{i}", "model.layers.{i}"

ATTENTION = {
    "embedding.weight": "model.embed_tokens.weight",
    f"{_BLOCK}.norm_attention.weight": f"{_THEIRS}.input_layernorm.weight",
    f"{_BLOCK}.attention.query.*": f"{_THEIRS}.self_attn.q_proj.*",
    f"{_BLOCK}.attention.key.*": f"{_THEIRS}.self_attn.k_proj.*",
    f"{_BLOCK}.attention.value.*": f"{_THEIRS}.self_attn.v_proj.*",
    f"{_BLOCK}.attention.output.*": f"{_THEIRS}.self_attn.o_proj.*",
    f"{_BLOCK}.norm_feed_forward.weight": f"{_THEIRS}.post_attention_layernorm.weight",
    "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
"""What all decoders in Llama's layout have in common."""

GATED = {
    f"{_BLOCK}.gate.linear_inner.*": f"{_THEIRS}.mlp.gate_proj.*",
    f"{_BLOCK}.gate.linear_outer.*": f"{_THEIRS}.mlp.up_proj.*",
    f"{_BLOCK}.linear.*": f"{_THEIRS}.mlp.down_proj.*",
}
"""The feed-forward part of Llama and of Mistral."""

TIED = {"lm_head.weight": "model.embed_tokens.weight"}
IGNORED = (r".*\.rotary_emb\.inv_freq",)

LLAMA = WeightTable(
    name="llama",
    model_types=("llama",),
    config=config_of,
    tensors={**ATTENTION, **GATED},
    tied=TIED,
    ignored=IGNORED,
)
