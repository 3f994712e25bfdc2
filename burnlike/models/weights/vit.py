"""Weights of vision transformers, as transformers' `ViTForImageClassification` has them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ..vision_configs import VisionTransformerConfig
from .options import activation_of, is_backbone, num_classes_of, refuse_others
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> VisionTransformerConfig:
    refuse_others(values, "VisionTransformer", qkv_bias=True)
    return VisionTransformerConfig(
        num_classes=None if is_backbone(values) else num_classes_of(values),
        image_size=values.get("image_size", 224),
        patch_size=values.get("patch_size", 16),
        channels=values.get("num_channels", 3),
        d_model=values.get("hidden_size", 768),
        n_layers=values.get("num_hidden_layers", 12),
        n_heads=values.get("num_attention_heads", 12),
        d_ff=values.get("intermediate_size", 3072),
        dropout=values.get("hidden_dropout_prob", 0.0),
        attention_dropout=values.get("attention_probs_dropout_prob", 0.0),
        activation=activation_of(values, "gelu"),
        norm_epsilon=values.get("layer_norm_eps", 1e-12),
    )


_PROJECTIONS = ("query", "key", "value")
_LAYER = "vit.encoder.layer.{i}"

VIT = WeightTable(
    name="vit",
    model_types=("vit",),
    architectures=("ViTForImageClassification", "ViTModel"),
    # Of the decoder of masked images, and of the pooler, which ours lacks.
    harmless=("encoder_stride", "pooler_act", "pooler_output_size"),
    backbone="vit.",
    # The mask's vector stands for hidden patches, which ours does not take.
    ignored=(r"vit\.pooler\.dense\.(weight|bias)", r"vit\.embeddings\.mask_token"),
    config=config_of,
    tensors={
        "class_token": "vit.embeddings.cls_token",
        "positions": "vit.embeddings.position_embeddings",
        "patches.projection.*": "vit.embeddings.patch_embeddings.projection.*",
        "blocks.{i}.norm_attention.*": f"{_LAYER}.layernorm_before.*",
        "blocks.{i}.attention.in_proj_weight": [f"{_LAYER}.attention.attention.{it}.weight" for it in _PROJECTIONS],
        "blocks.{i}.attention.in_proj_bias": [f"{_LAYER}.attention.attention.{it}.bias" for it in _PROJECTIONS],
        "blocks.{i}.attention.out_proj.*": f"{_LAYER}.attention.output.dense.*",
        "blocks.{i}.norm_feed_forward.*": f"{_LAYER}.layernorm_after.*",
        "blocks.{i}.linear_inner.*": f"{_LAYER}.intermediate.dense.*",
        "blocks.{i}.linear_outer.*": f"{_LAYER}.output.dense.*",
        "norm.*": "vit.layernorm.*",
        "head.*": "classifier.*",
    },
)
