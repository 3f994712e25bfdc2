"""Weights of GPT-2, as transformers' `GPT2LMHeadModel` has them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...nn.tensor_source import TensorSource
from ..language_configs import DecoderLmConfig, LearnedPositions, PlainPart
from .options import activation_of, int_of, is_backbone, refuse_others
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> DecoderLmConfig:
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


_BLOCK = "blocks.{i}"


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
    config=config_of,
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
