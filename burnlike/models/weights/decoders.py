"""Weights of Llama, Mistral, Mixtral, Qwen 2 and 3 and GPT-2, as transformers has them. Imports no torch."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...errors import ConfigError
from ...nn.attention.scaling_configs import DynamicScaling, LinearScaling, Llama3Scaling, RotaryScaling, YarnScaling
from ...nn.tensor_source import TensorSource
from ..decoder_lm.configs import DecoderLmConfig, ExpertsPart, GatedPart, LearnedPositions, PlainPart, RotaryPositions
from .options import activation_of, int_of, is_backbone, mapping_of, refuse_others, shown
from .table import WeightTable


def _llama_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", pretraining_tp=1, sliding_window=None, rope_interleaved=False)
    bias = values.get("attention_bias", False)
    feed_forward = GatedPart(activation=activation_of(values, "silu"), bias=values.get("mlp_bias", False))
    return _decoder_config(values).replace(attention_bias=bias, attention_output_bias=bias, feed_forward=feed_forward)


def _decoder_config(
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
        positions=RotaryPositions(interleaved=False, scaling=_scaling_of(values, rope, longest)),
        tied=values.get("tie_word_embeddings", False),
        head=not is_backbone(values),
    )


def _scaling_of(values: Mapping[str, Any], rope: Mapping[str, Any], longest: int) -> RotaryScaling | None:
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
_PROJECTIONS = ("query", "key", "value", "output")

_ATTENTION = {
    "embedding.weight": "model.embed_tokens.weight",
    f"{_BLOCK}.norm_attention.weight": f"{_THEIRS}.input_layernorm.weight",
    **{f"{_BLOCK}.attention.{it}.*": f"{_THEIRS}.self_attn.{it[0]}_proj.*" for it in _PROJECTIONS},
    f"{_BLOCK}.norm_feed_forward.weight": f"{_THEIRS}.post_attention_layernorm.weight",
    "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
"""What all decoders in Llama's layout have in common."""

_GATED = {
    f"{_BLOCK}.gate.linear_inner.*": f"{_THEIRS}.mlp.gate_proj.*",
    f"{_BLOCK}.gate.linear_outer.*": f"{_THEIRS}.mlp.up_proj.*",
    f"{_BLOCK}.linear.*": f"{_THEIRS}.mlp.down_proj.*",
}
"""The feed-forward part of Llama and of Mistral."""

LLAMA = WeightTable(
    name="llama",
    model_types=("llama",),
    architectures=("LlamaForCausalLM", "LlamaModel"),
    config=_llama_config,
    tensors={**_ATTENTION, **_GATED},
    tied={"lm_head.weight": "model.embed_tokens.weight"},
    ignored=(r".*\.rotary_emb\.inv_freq",),
    backbone="model.",
)


def _like_llama(name: str, kind: str, config: Callable[..., DecoderLmConfig], **others: Any) -> WeightTable:
    """The table of a model of transformers that has Llama's layout but for `others`."""
    architectures = (f"{kind}ForCausalLM", f"{kind}Model")
    return replace(LLAMA, name=name, model_types=(name,), architectures=architectures, config=config, **others)


def _mistral_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", attention_bias=False, mlp_bias=False)
    return _decoder_config(values, n_heads_kv=8).replace(
        sliding_window=values.get("sliding_window", 4096),
        feed_forward=GatedPart(activation=activation_of(values, "silu")),
    )


MISTRAL = _like_llama("mistral", "Mistral", _mistral_config)


def _mixtral_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", router_jitter_noise=0.0, attention_bias=False)
    experts = ExpertsPart(
        n_experts=values.get("num_local_experts", 8),
        n_selected=values.get("num_experts_per_tok", 2),
        activation=activation_of(values, "silu"),
        balance=values.get("router_aux_loss_coef", 0.001),
    )
    config = _decoder_config(values, theta=1000000.0, n_heads_kv=8, epsilon=1e-5)
    return config.replace(sliding_window=values.get("sliding_window"), feed_forward=experts)


MIXTRAL = _like_llama(
    "mixtral",
    "Mixtral",
    _mixtral_config,
    tensors={
        **_ATTENTION,
        f"{_BLOCK}.feed_forward.router.weight": f"{_THEIRS}.block_sparse_moe.gate.weight",
        **{
            f"{_BLOCK}.feed_forward.experts.{{j}}.{our}.weight": f"{_THEIRS}.block_sparse_moe.experts.{{j}}.{it}.weight"
            for our, it in (("gate.linear_inner", "w1"), ("gate.linear_outer", "w3"), ("linear", "w2"))
        },
    },
)


def _qwen2_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", use_mrope=False)
    return _decoder_config(values, n_heads_kv=32).replace(
        attention_bias=True,
        sliding_window=_window_of(values),
        feed_forward=GatedPart(activation=activation_of(values, "silu")),
    )


def _qwen3_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    bias = values.get("attention_bias", False)
    return _qwen2_config(values).replace(
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
QWEN2 = _like_llama("qwen2", "Qwen2", _qwen2_config)

# Norms of queries and keys in place of the biases.
QWEN3 = _like_llama(
    "qwen3",
    "Qwen3",
    _qwen3_config,
    tensors={
        **_ATTENTION,
        f"{_BLOCK}.attention.norm_query.weight": f"{_THEIRS}.self_attn.q_norm.weight",
        f"{_BLOCK}.attention.norm_key.weight": f"{_THEIRS}.self_attn.k_norm.weight",
        **_GATED,
    },
)


def _gpt2_config(values: Mapping[str, Any]) -> DecoderLmConfig:
    refuse_others(values, "DecoderLm", scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    refuse_others(values, "DecoderLm", is_causal=True)
    dropout = values.get("resid_pdrop", 0.1)
    refuse_others(values, "DecoderLm, with one dropout (resid_pdrop),", embd_pdrop=dropout, attn_pdrop=dropout)
    width, inner = int_of(values, "n_embd", 768), values.get("n_inner")
    return DecoderLmConfig(
        vocab_size=values["vocab_size"],
        max_sequence_length=values.get("n_positions", 1024),
        d_model=width,
        n_layers=values.get("n_layer", 12),
        n_heads=values.get("n_head", 12),
        d_ff=4 * width if inner is None else inner,
        dropout=dropout,
        norm="LayerNorm",
        norm_epsilon=values.get("layer_norm_epsilon", 1e-5),
        attention_bias=True,
        attention_output_bias=True,
        positions=LearnedPositions(),
        feed_forward=PlainPart(activation=activation_of(values, "gelu_new", "activation_function")),
        tied=values.get("tie_word_embeddings", True),
        head=not is_backbone(values),
    )


def _linear(ours: str, theirs: str, part: tuple[int, int] = (0, 1)) -> dict[str, TensorSource]:
    """A layer whose weight in GPT-2's files is `[d_input, d_output]`, of several layers side by side."""
    return {
        f"{_BLOCK}.{ours}.weight": TensorSource(f"transformer.h.{{i}}.{theirs}.weight", part, transposed=True, dim=-1),
        f"{_BLOCK}.{ours}.bias": TensorSource(f"transformer.h.{{i}}.{theirs}.bias", part),
    }


GPT2 = WeightTable(
    name="gpt2",
    model_types=("gpt2",),
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    harmless=(
        # Not read since the first versions.
        *("n_ctx", "n_special", "predict_special_tokens"),
        # Of the head for multiple choice.
        *("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"),
        # The same numbers, in float32 where the model has fewer bits.
        "reorder_and_upcast_attn",
    ),
    config=_gpt2_config,
    tensors={
        "embedding.weight": "transformer.wte.weight",
        "position.weight": "transformer.wpe.weight",
        f"{_BLOCK}.norm_attention.*": "transformer.h.{i}.ln_1.*",
        **_linear("attention.query", "attn.c_attn", (0, 3)),
        **_linear("attention.key", "attn.c_attn", (1, 3)),
        **_linear("attention.value", "attn.c_attn", (2, 3)),
        **_linear("attention.output", "attn.c_proj"),
        f"{_BLOCK}.norm_feed_forward.*": "transformer.h.{i}.ln_2.*",
        **_linear("feed_forward.linear_inner", "mlp.c_fc"),
        **_linear("feed_forward.linear_outer", "mlp.c_proj"),
        "norm.*": "transformer.ln_f.*",
        "head.weight": "lm_head.weight",
    },
    backbone="transformer.",
    tied={"lm_head.weight": "transformer.wte.weight"},
    ignored=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",),
)
