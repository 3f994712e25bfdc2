"""Weights of ResNet, of transformers and torchvision, and of transformers' ConvNeXt. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError
from ..convolutional.configs import ConvNextConfig, ResNetConfig
from .options import activation_of, float_of, is_backbone, num_classes_of, refuse_others, shown, sizes_of, text_of
from .table import WeightTable


def _resnet_config(values: Mapping[str, Any]) -> ResNetConfig:
    refuse_others(values, "ResNet", downsample_in_first_stage=False, downsample_in_bottleneck=False)
    # Convolutions within transformers' blocks have a ReLU, whatever `hidden_act` is.
    refuse_others(values, "ResNet", hidden_act="relu")
    kind = text_of(values, "layer_type", "bottleneck")
    if kind not in ("basic", "bottleneck"):
        raise ConfigError(f"layer_type: expected basic or bottleneck, got {shown(kind)}")
    return ResNetConfig(
        num_classes=None if is_backbone(values) else num_classes_of(values),
        channels=values.get("num_channels", 3),
        block="Basic" if kind == "basic" else "Bottleneck",
        depths=sizes_of(values, "depths", (3, 4, 6, 3)),
        widths=sizes_of(values, "hidden_sizes", (256, 512, 1024, 2048)),
        stem_channels=values.get("embedding_size", 64),
    )


_BLOCK = "resnet.encoder.stages.{i}.layers.{j}"
_PARTS = {"conv": "convolution", "norm": "normalization"}
_CONVS = {"first": 0, "second": 1, "reduce": 0, "middle": 1, "expand": 2}
"""The convolutions of a block, of either kind, and their places in it."""

RESNET = WeightTable(
    name="resnet",
    model_types=("resnet",),
    architectures=("ResNetForImageClassification", "ResNetModel"),
    # All stages are there to be asked for.
    harmless=("out_features", "out_indices", "stage_names", "_out_features", "_out_indices"),
    backbone="resnet.",
    config=_resnet_config,
    tensors={
        **{f"stem.{part}.*": f"resnet.embedder.embedder.{theirs}.*" for part, theirs in _PARTS.items()},
        **{
            f"stages.{{i}}.{{j}}.{name}.{part}.*": f"{_BLOCK}.layer.{at}.{theirs}.*"
            for name, at in _CONVS.items()
            for part, theirs in _PARTS.items()
        },
        **{f"stages.{{i}}.{{j}}.shortcut.{part}.*": f"{_BLOCK}.shortcut.{theirs}.*" for part, theirs in _PARTS.items()},
        "head.*": "classifier.1.*",
    },
)


def _no_config(values: Mapping[str, Any]) -> ResNetConfig:
    raise ConfigError("torchvision's weights have no config.json; make a ResNetConfig, as by ResNetConfig.resnet50()")


def _stage(ours: str, theirs: str) -> dict[str, str]:
    """The tensors of torchvision's blocks of a stage."""
    return {
        **{f"{ours}.{name}.conv.*": f"{theirs}.conv{at + 1}.*" for name, at in _CONVS.items()},
        **{f"{ours}.{name}.norm.*": f"{theirs}.bn{at + 1}.*" for name, at in _CONVS.items()},
        **{f"{ours}.shortcut.{part}.*": f"{theirs}.downsample.{at}.*" for at, part in enumerate(_PARTS)},
    }


TORCHVISION_RESNET = WeightTable(
    name="torchvision_resnet",
    model_types=(),
    config=_no_config,
    tensors={
        "stem.conv.*": "conv1.*",
        "stem.norm.*": "bn1.*",
        **{name: it for at in range(4) for name, it in _stage(f"stages.{at}.{{j}}", f"layer{at + 1}.{{j}}").items()},
        "head.*": "fc.*",
    },
)


def _convnext_config(values: Mapping[str, Any]) -> ConvNextConfig:
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
    config=_convnext_config,
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
