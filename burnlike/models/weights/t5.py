"""Weights of T5, as transformers' `T5ForConditionalGeneration` has them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError
from ..encoder_decoder.configs import EncoderDecoderConfig
from .options import activation_of, refuse_others, shown, text_of
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> EncoderDecoderConfig:
    refuse_others(values, "EncoderDecoder", is_encoder_decoder=True)
    kind = text_of(values, "feed_forward_proj", "relu")
    gate, _, activation = kind.rpartition("-")
    if gate not in ("", "gated"):
        raise ConfigError(f"feed_forward_proj: expected an activation, or gated- and one, got {shown(kind)}")
    # In T5 1.1 transformers takes the approximation by tanh, and calls it gelu.
    activation = "gelu_new" if kind == "gated-gelu" else activation
    key = "dense_act_fn" if "dense_act_fn" in values else "feed_forward_proj"
    # T5 1.1 says by this that its head is a matrix of its own; newer files of transformers by scale_decoder_outputs.
    tied = values.get("scale_decoder_outputs", values.get("tie_word_embeddings", True))
    return EncoderDecoderConfig(
        vocab_size=values.get("vocab_size", 32128),
        d_model=values.get("d_model", 512),
        n_layers=values.get("num_layers", 6),
        n_heads=values.get("num_heads", 8),
        d_head=values.get("d_kv", 64),
        d_ff=values.get("d_ff", 2048),
        n_decoder_layers=values.get("num_decoder_layers"),
        # What newer files say besides counts, as in transformers.
        activation=activation_of({key: values.get("dense_act_fn", activation)}, activation, key),
        gated=values.get("is_gated_act", gate == "gated"),
        dropout=values.get("dropout_rate", 0.1),
        n_buckets=values.get("relative_attention_num_buckets", 32),
        max_distance=values.get("relative_attention_max_distance", 128),
        tied_head=tied,
        norm_epsilon=values.get("layer_norm_epsilon", 1e-6),
    )


_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_LINEARS = {"linear_inner": "wi", "linear_gate": "wi_0", "linear_value": "wi_1", "linear_outer": "wo"}


def _part(stack: str, ours: str, place: int, theirs: str, names: Mapping[str, str]) -> dict[str, str]:
    """A part of each layer of a stack, and the norm before it."""
    layer = f"{stack}.block.{{i}}.layer.{place}"
    tensors = {f"{stack}.layers.{{i}}.{ours}.{name}.*": f"{layer}.{theirs}.{names[name]}.*" for name in names}
    return {**tensors, f"{stack}.layers.{{i}}.norm_{ours}.*": f"{layer}.layer_norm.*"}


def _stack(stack: str) -> dict[str, str]:
    return {
        f"{stack}.position_bias.weight": f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        **_part(stack, "attention", 0, "SelfAttention", _PROJECTIONS),
        f"{stack}.norm.*": f"{stack}.final_layer_norm.*",
    }


T5 = WeightTable(
    name="t5",
    model_types=("t5",),
    architectures=("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    # Positions are distances, and classifiers are other architectures.
    harmless=("n_positions", "classifier_dropout"),
    config=config_of,
    tensors={
        "embedding.weight": "shared.weight",
        **_stack("encoder"),
        **_part("encoder", "feed_forward", 1, "DenseReluDense", _LINEARS),
        **_stack("decoder"),
        **_part("decoder", "cross_attention", 1, "EncDecAttention", _PROJECTIONS),
        **_part("decoder", "feed_forward", 2, "DenseReluDense", _LINEARS),
        "head.weight": "lm_head.weight",
    },
    tied={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    # Files of T5 1.1 whose head is the embedding, not scaled, lack the head.
    copied={"lm_head.weight": "shared.weight"},
    # Files of old versions have a bias of the attention to the memory, which was never used.
    ignored=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
)
