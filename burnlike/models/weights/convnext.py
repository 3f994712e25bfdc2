"""Weights of ConvNeXt, as transformers' `ConvNextForImageClassification` has them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ..vision_configs import ConvNextConfig
from .options import activation_of, float_of, is_backbone, num_classes_of, refuse_others, sizes_of
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> ConvNextConfig:
    depths = sizes_of(values, "depths", (3, 3, 9, 3))
    refuse_others(values, "ConvNext, with a stage for each of depths,", num_stages=len(depths))
    scale = float_of(values, "layer_scale_init_value", 1e-6)
    return ConvNextConfig(
        num_classes=None if is_backbone(values) else num_classes_of(values),
        channels=values.get("num_channels", 3),
        depths=depths,
        widths=sizes_of(values, "hidden_sizes", (96, 192, 384, 768)),
        patch_size=values.get("patch_size", 4),
        drop_path=values.get("drop_path_rate", 0.0),
        layer_scale=max(scale, 0.0),
        activation=activation_of(values, "gelu"),
        # transformers has this epsilon in all norms but the last, whatever its config is.
        norm_epsilon=1e-6,
        head_epsilon=values.get("layer_norm_eps", 1e-12),
    )


_STAGE = "convnext.encoder.stages.{i}"

CONVNEXT = WeightTable(
    name="convnext",
    model_types=("convnext",),
    architectures=("ConvNextForImageClassification", "ConvNextModel"),
    # Images of every size are taken, and all stages are there to be asked for.
    harmless=("image_size", "out_features", "out_indices", "stage_names", "_out_features", "_out_indices"),
    backbone="convnext.",
    config=config_of,
    tensors={
        "downsamples.0.conv.*": "convnext.embeddings.patch_embeddings.*",
        "downsamples.0.norm.*": "convnext.embeddings.layernorm.*",
        "downsamples.{i}.norm.*": f"{_STAGE}.downsampling_layer.0.*",
        "downsamples.{i}.conv.*": f"{_STAGE}.downsampling_layer.1.*",
        "stages.{i}.{j}.conv.*": f"{_STAGE}.layers.{{j}}.dwconv.*",
        "stages.{i}.{j}.norm.*": f"{_STAGE}.layers.{{j}}.layernorm.*",
        "stages.{i}.{j}.linear_inner.*": f"{_STAGE}.layers.{{j}}.pwconv1.*",
        "stages.{i}.{j}.linear_outer.*": f"{_STAGE}.layers.{{j}}.pwconv2.*",
        "stages.{i}.{j}.scale.gamma": f"{_STAGE}.layers.{{j}}.layer_scale_parameter",
        "norm.*": "convnext.layernorm.*",
        "head.*": "classifier.*",
    },
)
