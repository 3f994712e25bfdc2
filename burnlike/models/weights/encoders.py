"""Weights of BERT and of vision transformers, as transformers' `Bert...` and `ViT...` have them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ..encoders.configs import BertClassifierConfig, BertEncoderConfig, BertMaskedLmConfig, VisionTransformerConfig
from .options import activation_of, is_backbone, num_classes_of, refuse_others
from .table import WeightTable


def _bert_config(values: Mapping[str, Any]) -> BertEncoderConfig | BertMaskedLmConfig | BertClassifierConfig:
    refuse_others(values, "BertEncoder", position_embedding_type="absolute", tie_word_embeddings=True)
    architectures = values.get("architectures") or ()
    dropout = values.get("hidden_dropout_prob", 0.1)
    encoder = BertEncoderConfig(
        vocab_size=values.get("vocab_size", 30522),
        max_sequence_length=values.get("max_position_embeddings", 512),
        n_token_types=values.get("type_vocab_size", 2),
        dropout=dropout,
        attention_dropout=values.get("attention_probs_dropout_prob", 0.1),
        pooler=not {"BertForMaskedLM", "BertForPreTraining"} & {*architectures},
        **_layer_fields(values),
    )
    if not encoder.pooler:
        return BertMaskedLmConfig(encoder=encoder)
    if "BertForSequenceClassification" in architectures:
        classifier_dropout = values.get("classifier_dropout")
        return BertClassifierConfig(
            encoder=encoder,
            n_classes=num_classes_of(values),
            dropout=dropout if classifier_dropout is None else classifier_dropout,
        )
    return encoder


def _vit_config(values: Mapping[str, Any]) -> VisionTransformerConfig:
    refuse_others(values, "VisionTransformer", qkv_bias=True)
    return VisionTransformerConfig(
        num_classes=None if is_backbone(values) else num_classes_of(values),
        image_size=values.get("image_size", 224),
        patch_size=values.get("patch_size", 16),
        channels=values.get("num_channels", 3),
        dropout=values.get("hidden_dropout_prob", 0.0),
        attention_dropout=values.get("attention_probs_dropout_prob", 0.0),
        **_layer_fields(values),
    )


def _layer_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of layers, whose names and defaults both have in common."""
    return {
        "d_model": values.get("hidden_size", 768),
        "n_layers": values.get("num_hidden_layers", 12),
        "n_heads": values.get("num_attention_heads", 12),
        "d_ff": values.get("intermediate_size", 3072),
        "activation": activation_of(values, "gelu"),
        "norm_epsilon": values.get("layer_norm_eps", 1e-12),
    }


def _layer(ours: str, theirs: str, attention: str, norms: tuple[str, str]) -> dict[str, str | list[str]]:
    """The tensors of a layer; `attention` is where its projections are, `norms` are those of the two parts."""
    projections = [f"{theirs}.attention.{attention}.{it}" for it in ("query", "key", "value")]
    return {
        f"{ours}.attention.in_proj_weight": [f"{projection}.weight" for projection in projections],
        f"{ours}.attention.in_proj_bias": [f"{projection}.bias" for projection in projections],
        f"{ours}.attention.out_proj.*": f"{theirs}.attention.output.dense.*",
        f"{ours}.norm_attention.*": f"{theirs}.{norms[0]}.*",
        f"{ours}.linear_inner.*": f"{theirs}.intermediate.dense.*",
        f"{ours}.linear_outer.*": f"{theirs}.output.dense.*",
        f"{ours}.norm_feed_forward.*": f"{theirs}.{norms[1]}.*",
    }


def _bert_encoder(ours: str, theirs: str) -> dict[str, str | list[str]]:
    """The tensors of an encoder; with a head it has a name, in ours and in theirs."""
    norms = ("attention.output.LayerNorm", "output.LayerNorm")
    embeddings = {"token": "word_embeddings", "position": "position_embeddings", "norm": "LayerNorm"}
    embeddings["token_type"] = "token_type_embeddings"
    return {
        **{f"{ours}embeddings.{our}.*": f"{theirs}embeddings.{their}.*" for our, their in embeddings.items()},
        **_layer(f"{ours}layers.{{i}}", f"{theirs}encoder.layer.{{i}}", "self", norms),
        f"{ours}pooler.*": f"{theirs}pooler.dense.*",
    }


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
    config=_bert_config,
    tensors={
        **_bert_encoder("", ""),
        **_bert_encoder("encoder.", "bert."),
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

VIT = WeightTable(
    name="vit",
    model_types=("vit",),
    architectures=("ViTForImageClassification", "ViTModel"),
    # Of the decoder of masked images, and of the pooler, which ours lacks.
    harmless=("encoder_stride", "pooler_act", "pooler_output_size"),
    backbone="vit.",
    # The mask's vector stands for hidden patches, which ours does not take.
    ignored=(r"vit\.pooler\.dense\.(weight|bias)", r"vit\.embeddings\.mask_token"),
    config=_vit_config,
    tensors={
        "class_token": "vit.embeddings.cls_token",
        "positions": "vit.embeddings.position_embeddings",
        "patches.projection.*": "vit.embeddings.patch_embeddings.projection.*",
        **_layer("blocks.{i}", "vit.encoder.layer.{i}", "attention", ("layernorm_before", "layernorm_after")),
        "norm.*": "vit.layernorm.*",
        "head.*": "classifier.*",
    },
)
