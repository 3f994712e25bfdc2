"""Other values for the keys of a `config.json`, and keys that may stand beside those of its family."""

from collections.abc import Iterator, Mapping
from typing import Any

from transformers.activations import ACT2CLS

_LLAMA_3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_ROPES: tuple[Any, ...] = (
    {"rope_type": "default", "rope_theta": 50.0},
    {"rope_type": "default", "rope_theta": 50.0, "factor": 2.0},
    {"rope_type": "linear", "factor": 2.0},
    {"type": "linear", "factor": 2.0, "rope_theta": 50.0},
    {"rope_type": "linear", "type": "dynamic", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 3.0},
    {"rope_type": "dynamic", "factor": 3.0, "original_max_position_embeddings": 4},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 8},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4, "beta_slow": 2, "truncate": False, "attention_factor": 1.5},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": 0, "beta_slow": None, "truncate": None, "attention_factor": None},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 2.0, "mscale_all_dim": 0.5},
    _LLAMA_3,
    {**_LLAMA_3, "original_max_position_embeddings": 16, "rope_theta": 50.0},
    {"rope_type": "longrope", "short_factor": [2.0, 1.0], "long_factor": [1.0, 3.0], "factor": 2.0},
    {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.5},
    {"rope_type": "proportional", "partial_rotary_factor": 0.5},
    {"rope_type": None},
    {"full_attention": {"rope_type": "linear", "factor": 2.0}},
    {},
    [],
    None,
)
_ACTIVATIONS = ("hidden_act", "activation_function", "dense_act_fn")
_TEXTS: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(_ACTIVATIONS, (*ACT2CLS, "gleu", ["relu"])),
    "feed_forward_proj": ("gelu", "gated-gelu", "gated-silu", "gated-relu", "x-relu", "gated"),
    "layer_type": ("basic", "bottleneck", "other"),
    "rope_parameters": _ROPES,
    "rope_scaling": _ROPES,
    "layer_types": (["sliding_attention"] * 2, ["full_attention", "sliding_attention"], ["full_attention"] * 2, []),
    "position_embedding_type": ("absolute", "relative_key", "relative_key_query"),
    "dtype": ("float64", "bfloat16", "float8_e4m3fn", "auto"),
    "pruned_heads": ({}, {"0": [0]}),
    "quantization_config": ({"quant_method": "gptq", "bits": 4},),
    "problem_type": ("regression",),
    "id2label": ({"0": "a", "1": "b"}, {"0": "a", "1": "b", "2": "c"}),
    "depths": ([2, 1], [1, 1, 1]),
    "hidden_sizes": ([8, 4], [4, 4, 4]),
    "architectures": ([], ["Other"], ["BertForTokenClassification"], "Other"),
    "per_layer_config": ({"1": {"sliding_window": 3}},),
}
BESIDE = (
    *("is_causal", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "attention_bias"),
    *("mlp_bias", "head_dim", "partial_rotary_factor", "rope_theta", "rope_scaling", "num_experts", "num_labels"),
    *("original_max_position_embeddings", "is_decoder", "add_cross_attention", "pruned_heads", "tie_encoder_decoder"),
    *("is_encoder_decoder", "tie_word_embeddings", "position_embedding_type", "quantization_config", "use_mrope"),
    *("scale_decoder_outputs", "dense_act_fn", "is_gated_act", "hidden_size", "n_ctx", "attention_chunk_size"),
    *("per_layer_config", "attn_logit_softcapping", "final_logit_softcapping", "qkv_bias", "pretraining_tp"),
    *("use_bidirectional_attention", "no_rope_layers", "attention_dropout", "scale_attn_weights", "unheard_of"),
)
"""Keys that classes of configs lack, and that programs read all the same, or that other families have."""


def values_of(key: str, base: Any) -> Iterator[Any]:
    """Values for a key whose value is `base`."""
    if key in _TEXTS:
        yield from _TEXTS[key]
    elif isinstance(base, bool):
        yield not base
    elif isinstance(base, int):
        yield from (2 * base, base + 1, max(base // 2, 1))
    elif isinstance(base, float):
        yield from (30 * base + 0.05, base / 2)
    elif base is None:
        yield from (1, 3.0, True, False)
    yield None
