"""A size of each ready model that takes some milliseconds, and the same model in torch.nn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn as torch_nn

from burnlike import models
from burnlike.config import ModuleConfig

from . import torch_bert, torch_convnext, torch_decoder, torch_lstm, torch_resnet, torch_t5, torch_unet, torch_vit


@dataclass(frozen=True)
class Size:
    """A model and its inputs.

    Attributes:
        config: of the model, without what is random in training.
        inputs: makes them, floats in float32.
        twin: the same model in torch.nn.
        names: patterns in the paths of ours, with torch's names of layers' tensors, to what the twin has.
    """

    config: ModuleConfig
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    twin: Callable[[Any], torch_nn.Module]
    names: Mapping[str, str] = field(default_factory=dict)


def images(batch: int, size: int) -> Callable[[], tuple[torch.Tensor]]:
    """A batch of square images."""
    return lambda: (torch.randn(batch, 3, size, size),)


def tokens(*shapes: tuple[int, int]) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A batch of token numbers for each shape."""
    return lambda: tuple(torch.randint(1000, shape) for shape in shapes)


def torch_mlp(config: models.MlpConfig) -> torch_nn.Module:
    """Linear layers with ReLU between them."""
    first, *hidden, last = config.sizes
    layers: list[torch_nn.Module] = []
    for before, after in zip([first, *hidden], hidden, strict=False):
        layers += [torch_nn.Linear(before, after), torch_nn.ReLU()]
    return torch_nn.Sequential(*layers, torch_nn.Linear(hidden[-1], last))


SIZES: dict[str, Size] = {
    "Mlp": Size(
        models.MlpConfig(sizes=(784, 512, 512, 10)),
        lambda: (torch.randn(256, 784),),
        torch_mlp,
        {r"^layers\.2": "4", r"^layers\.1": "2", r"^layers\.0": "0"},
    ),
    "ResNet/18": Size(
        models.ResNetConfig.resnet18(num_classes=10, stem="Small"),
        images(4, 32),
        torch_resnet.ResNet,
        torch_resnet.NAMES,
    ),
    "ResNet/50": Size(models.ResNetConfig.resnet50(), images(2, 64), torch_resnet.ResNet, torch_resnet.NAMES),
    "ConvNext": Size(
        models.ConvNextConfig(num_classes=1000, depths=(2, 2, 2, 2), widths=(48, 96, 192, 384), layer_scale=0.1),
        images(4, 64),
        torch_convnext.ConvNext,
        torch_convnext.NAMES,
    ),
    "UNet": Size(
        models.UNetConfig(num_classes=2, widths=(16, 32, 64, 128)), images(2, 64), torch_unet.UNet, torch_unet.NAMES
    ),
    "VisionTransformer": Size(
        models.VisionTransformerConfig.tiny(image_size=64, patch_size=8, n_layers=4),
        images(4, 64),
        torch_vit.VisionTransformer,
        torch_vit.NAMES,
    ),
    "DecoderLm": Size(
        models.DecoderLmConfig(
            vocab_size=1000,
            max_sequence_length=128,
            d_model=256,
            n_layers=4,
            n_heads=8,
            n_heads_kv=4,
            d_ff=704,
            positions=models.RotaryPositions(interleaved=False),
            tied=False,
        ),
        tokens((4, 128)),
        torch_decoder.DecoderLm,
        torch_decoder.NAMES,
    ),
    "BertMaskedLm": Size(
        models.BertMaskedLmConfig(
            encoder=models.BertEncoderConfig(
                vocab_size=1000,
                max_sequence_length=64,
                d_model=128,
                n_layers=4,
                n_heads=4,
                d_ff=512,
                dropout=0.0,
                attention_dropout=0.0,
                pooler=False,
            )
        ),
        tokens((4, 64)),
        torch_bert.Bert,
        torch_bert.NAMES,
    ),
    "EncoderDecoder": Size(
        models.EncoderDecoderConfig(
            vocab_size=1000, d_model=128, n_layers=2, n_heads=4, d_head=32, d_ff=512, dropout=0.0
        ),
        tokens((4, 64), (4, 32)),
        torch_t5.T5,
        torch_t5.NAMES,
    ),
    "LstmLm": Size(
        models.LstmLmConfig(vocab_size=1000, d_model=128, d_hidden=128),
        tokens((8, 32)),
        torch_lstm.LstmLm,
        torch_lstm.NAMES,
    ),
}
