"""Weights of Llama, as transformers' `LlamaForCausalLM` has them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError
from ...nn.attention.scaling_configs import DynamicScaling, LinearScaling, Llama3Scaling, RotaryScaling, YarnScaling
from ..language_configs import DecoderLmConfig, GatedPart, RotaryPositions
from .options import activation_of, is_backbone, mapping_of, refuse_others, shown
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", pretraining_tp=1, sliding_window=None, rope_interleaved=False)
    bias = values.get("attention_bias", False)
    feed_forward = GatedPart(activation=activation_of(values, "silu"), bias=values.get("mlp_bias", False))
    return decoder_config(values).replace(attention_bias=bias, attention_output_bias=bias, feed_forward=feed_forward)


def decoder_config(
    values: Mapping[str, Any], *, theta: float = 10000.0, n_heads_kv: int | None = None, epsilon: float = 1e-6
) -> DecoderLmConfig:
    """The config of a model whose blocks have the layout of Llama's; the keywords are for files that don't say."""
    refuse_others(values, "DecoderLm", attention_dropout=0.0, is_causal=True)
    longest = values["max_position_embeddings"]
    # As in transformers: what version 4 wrote counts where both are there, and what stands beside it fills gaps.
    old, new = values.get("rope_scaling"), values.get("rope_parameters")
    rope = mapping_of(values, "rope_scaling") if old or not new else mapping_of(values, "rope_parameters")
    rotated = rope.get("partial_rotary_factor", values.get("partial_rotary_factor", 1.0))
    refuse_others({"partial_rotary_factor": rotated or 1.0}, "RotaryEncoding", partial_rotary_factor=1.0)
    return DecoderLmConfig(
        vocab_size=values["vocab_size"],
        max_sequence_length=longest,
        d_model=values["hidden_size"],
        n_layers=values["num_hidden_layers"],
        n_heads=values["num_attention_heads"],
        n_heads_kv=values.get("num_key_value_heads", n_heads_kv),
        d_head=values.get("head_dim"),
        d_ff=values["intermediate_size"],
        theta=rope.get("rope_theta", values.get("rope_theta", theta)),
        norm_epsilon=values.get("rms_norm_eps", epsilon),
        positions=RotaryPositions(interleaved=False, scaling=scaling_of(values, rope, longest)),
        tied=values.get("tie_word_embeddings", False),
        head=not is_backbone(values),
    )


def scaling_of(values: Mapping[str, Any], rope: Mapping[str, Any], longest: int) -> RotaryScaling | None:
    """The scaling of rotary frequencies in `rope`, the file's `rope_parameters` or `rope_scaling`.

    Args:
        longest: the file's `max_position_embeddings`.
    """
    # Of the length of the pretraining that beside the mapping counts first, as in transformers (Phi 3 has it there).
    original = rope.get(_ORIGINAL, longest)
    original = values.get(_ORIGINAL, original)
    match rope.get("rope_type", rope.get("type", "default")):
        case "default":
            return None
        case "linear":
            return LinearScaling(factor=rope["factor"])
        case "dynamic":
            return DynamicScaling(factor=rope["factor"], original_length=longest)
        case "llama3":
            factors = {name: rope[name] for name in ("factor", "low_freq_factor", "high_freq_factor")}
            return Llama3Scaling(original_length=original, **factors)
        case "yarn":
            refuse_others(rope, "RotaryEncoding", mscale=None, mscale_all_dim=None)
            return YarnScaling(
                factor=longest / original if rope["factor"] is None else rope["factor"],
                original_length=original,
                beta_fast=rope.get("beta_fast") or 32,
                beta_slow=rope.get("beta_slow") or 1,
                attention_factor=rope.get("attention_factor"),
                truncate=rope.get("truncate", True),
            )
        case kind:
            raise ConfigError(f"rope_type: expected one of default, linear, dynamic, llama3, yarn, got {shown(kind)}")


_ORIGINAL = "original_max_position_embeddings"
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

LLAMA = WeightTable(
    name="llama",
    model_types=("llama",),
    architectures=("LlamaForCausalLM", "LlamaModel"),
    config=config_of,
    tensors={**ATTENTION, **GATED},
    tied={"lm_head.weight": "model.embed_tokens.weight"},
    ignored=(r".*\.rotary_emb\.inv_freq",),
    backbone="model.",
)
