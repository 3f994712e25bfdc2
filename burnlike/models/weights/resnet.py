"""Weights of ResNets: of transformers' `ResNetForImageClassification`, and of torchvision. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError
from ..vision_configs import ResNetConfig
from .options import is_backbone, num_classes_of, refuse_others, shown, sizes_of, text_of
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> ResNetConfig:
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
_CONVS = {"first": 0, "second": 1, "reduce": 0, "middle": 1, "expand": 2}
"""The convolutions of a block, of either kind, and their places in it."""

RESNET = WeightTable(
    name="resnet",
    model_types=("resnet",),
    architectures=("ResNetForImageClassification", "ResNetModel"),
    # All stages are there to be asked for.
    harmless=("out_features", "out_indices", "stage_names", "_out_features", "_out_indices"),
    backbone="resnet.",
    config=config_of,
    tensors={
        "stem.conv.*": "resnet.embedder.embedder.convolution.*",
        "stem.norm.*": "resnet.embedder.embedder.normalization.*",
        **{f"stages.{{i}}.{{j}}.{name}.conv.*": f"{_BLOCK}.layer.{at}.convolution.*" for name, at in _CONVS.items()},
        **{f"stages.{{i}}.{{j}}.{name}.norm.*": f"{_BLOCK}.layer.{at}.normalization.*" for name, at in _CONVS.items()},
        "stages.{i}.{j}.shortcut.conv.*": f"{_BLOCK}.shortcut.convolution.*",
        "stages.{i}.{j}.shortcut.norm.*": f"{_BLOCK}.shortcut.normalization.*",
        "head.*": "classifier.1.*",
    },
)


def _no_config(values: Mapping[str, Any]) -> ResNetConfig:
    raise ConfigError("torchvision's weights have no config.json; make a ResNetConfig, as by ResNetConfig.resnet50()")


_STAGES = range(4)

TORCHVISION_RESNET = WeightTable(
    name="torchvision_resnet",
    model_types=(),
    config=_no_config,
    tensors={
        "stem.conv.*": "conv1.*",
        "stem.norm.*": "bn1.*",
        **{
            f"stages.{stage}.{{j}}.{name}.conv.*": f"layer{stage + 1}.{{j}}.conv{at + 1}.*"
            for stage in _STAGES
            for name, at in _CONVS.items()
        },
        **{
            f"stages.{stage}.{{j}}.{name}.norm.*": f"layer{stage + 1}.{{j}}.bn{at + 1}.*"
            for stage in _STAGES
            for name, at in _CONVS.items()
        },
        **{f"stages.{stage}.{{j}}.shortcut.conv.*": f"layer{stage + 1}.{{j}}.downsample.0.*" for stage in _STAGES},
        **{f"stages.{stage}.{{j}}.shortcut.norm.*": f"layer{stage + 1}.{{j}}.downsample.1.*" for stage in _STAGES},
        "head.*": "fc.*",
    },
)
