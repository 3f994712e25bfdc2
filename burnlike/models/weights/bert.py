"""Weights of BERT, as transformers' `BertModel` and its heads have them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ..language_configs import BertClassifierConfig, BertEncoderConfig, BertMaskedLmConfig
from .options import activation_of, num_classes_of, refuse_others
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> BertEncoderConfig | BertMaskedLmConfig | BertClassifierConfig:
    refuse_others(
        values,
        "BertEncoder",
        position_embedding_type="absolute",
        tie_word_embeddings=True,
    )
    architectures = values.get("architectures") or ()
    dropout = values.get("hidden_dropout_prob", 0.1)
    encoder = BertEncoderConfig(
        vocab_size=values.get("vocab_size", 30522),
        max_sequence_length=values.get("max_position_embeddings", 512),
        d_model=values.get("hidden_size", 768),
        n_layers=values.get("num_hidden_layers", 12),
        n_heads=values.get("num_attention_heads", 12),
        d_ff=values.get("intermediate_size", 3072),
        n_token_types=values.get("type_vocab_size", 2),
        dropout=dropout,
        attention_dropout=values.get("attention_probs_dropout_prob", 0.1),
        activation=activation_of(values, "gelu"),
        norm_epsilon=values.get("layer_norm_eps", 1e-12),
        pooler=not {"BertForMaskedLM", "BertForPreTraining"} & {*architectures},
    )
    if not encoder.pooler:
        return BertMaskedLmConfig(encoder=encoder)
    if "BertForSequenceClassification" in architectures:
        own = values.get("classifier_dropout")
        return BertClassifierConfig(
            encoder=encoder, n_classes=num_classes_of(values), dropout=dropout if own is None else own
        )
    return encoder


_LAYER = "encoder.layer.{i}"
_PROJECTIONS = ("query", "key", "value")
_ENCODER: dict[str, str | list[str]] = {
    "embeddings.token.*": "embeddings.word_embeddings.*",
    "embeddings.position.*": "embeddings.position_embeddings.*",
    "embeddings.token_type.*": "embeddings.token_type_embeddings.*",
    "embeddings.norm.*": "embeddings.LayerNorm.*",
    "layers.{i}.attention.in_proj_weight": [f"{_LAYER}.attention.self.{it}.weight" for it in _PROJECTIONS],
    "layers.{i}.attention.in_proj_bias": [f"{_LAYER}.attention.self.{it}.bias" for it in _PROJECTIONS],
    "layers.{i}.attention.out_proj.*": f"{_LAYER}.attention.output.dense.*",
    "layers.{i}.norm_attention.*": f"{_LAYER}.attention.output.LayerNorm.*",
    "layers.{i}.linear_inner.*": f"{_LAYER}.intermediate.dense.*",
    "layers.{i}.linear_outer.*": f"{_LAYER}.output.dense.*",
    "layers.{i}.norm_feed_forward.*": f"{_LAYER}.output.LayerNorm.*",
    "pooler.*": "pooler.dense.*",
}


def _within_bert(theirs: str | list[str]) -> str | list[str]:
    return f"bert.{theirs}" if isinstance(theirs, str) else [f"bert.{it}" for it in theirs]


BERT = WeightTable(
    name="bert",
    model_types=("bert",),
    architectures=("BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification"),
    # Of classifiers, whose config reads it; what BERT's first program wrote of its pooler.
    harmless=(
        "classifier_dropout",
        *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
        *("pooler_size_per_head", "pooler_type"),
    ),
    config=config_of,
    tensors={
        **_ENCODER,
        # With a head the encoder has a name, in ours and in theirs.
        **{f"encoder.{ours}": _within_bert(theirs) for ours, theirs in _ENCODER.items()},
        "linear.*": "cls.predictions.transform.dense.*",
        "norm.*": "cls.predictions.transform.LayerNorm.*",
        "bias": "cls.predictions.bias",
        "head.*": "classifier.*",
    },
    # Files of a model with a head have an encoder to be loaded alone.
    prefixes=("", "bert."),
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    ignored=(
        r"(bert\.)?embeddings\.(position_ids|token_type_ids)",
        r"(bert\.)?pooler\.dense\.(weight|bias)",
        r"cls\.(?!predictions\.decoder\.).*",
        r"classifier\.(weight|bias)",
    ),
    heads=("cls.predictions.",),
    # The first files of BERT were made of TensorFlow's.
    old_names={r"LayerNorm\.gamma": "LayerNorm.weight", r"LayerNorm\.beta": "LayerNorm.bias"},
)
