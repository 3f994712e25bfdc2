"""Cases of the blocks of vision models."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from burnlike import nn

from . import Case, floats

GROUPS = nn.GroupNormConfig(num_groups=2, num_channels=2)


def patches(layer: Any, x: Tensor) -> Tensor:
    """Each patch, flattened, times the matrix of the weights (Dosovitskiy et al. 2021, eq. 1)."""
    weight = layer.projection.weight
    _, _, height, width = weight.shape
    cut = x.unfold(2, height, height).unfold(3, width, width)  # [batch, channels, rows, columns, height, width]
    rows = cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    bias = 0 if layer.projection.bias is None else layer.projection.bias
    return rows @ weight.flatten(1).T + bias


def squeezed(layer: Any, x: Tensor) -> Tensor:
    """Hu et al. 2018, eq. 2 to 4."""
    mean = x.sum((2, 3)) / (x.shape[2] * x.shape[3])
    hidden = (mean @ layer.reduce.weight + layer.reduce.bias).clamp_min(0)
    scales = 1 / (1 + (-(hidden @ layer.expand.weight + layer.expand.bias)).exp())
    return torch.einsum("bchw,bc->bchw", x, scales)


def conv_norm(layer: Any, x: Tensor, stride: int, padding: int, groups: int = 1) -> Tensor:
    """The convolution, its normalization by formula, no activation."""
    y = functional.conv2d(x, layer.conv.weight, None, stride, padding, 1, groups)
    norm = layer.norm
    shape = (1, -1, 1, 1)
    if hasattr(norm, "num_groups"):
        grouped = y.unflatten(1, (norm.num_groups, -1))
        mean, variance = grouped.mean((2, 3, 4), keepdim=True), grouped.var((2, 3, 4), correction=0, keepdim=True)
        y = ((grouped - mean) / (variance + norm.epsilon).sqrt()).flatten(1, 2)
    elif layer.training:
        mean, variance = y.mean((0, 2, 3), keepdim=True), y.var((0, 2, 3), correction=0, keepdim=True)
        y = (y - mean) / (variance + norm.epsilon).sqrt()
    else:
        y = (y - norm.running_mean.view(shape)) / (norm.running_var.view(shape) + norm.epsilon).sqrt()
    return y * norm.gamma.view(shape) + norm.beta.view(shape)


def relu(x: Tensor) -> Tensor:
    return x.clamp_min(0)


def separable(layer: Any, x: Tensor) -> Tensor:
    """Howard et al. 2017, section 3.1 and figure 3."""
    y = relu(conv_norm(layer.depthwise, x, 1, 1, x.shape[1]))
    return relu(conv_norm(layer.pointwise, y, 1, 0))


def shortcut(layer: Any, x: Tensor, stride: int) -> Tensor:
    return x if layer.shortcut is None else conv_norm(layer.shortcut, x, stride, 0)


def basic(stride: int) -> Any:
    """He et al. 2016, figure 5 left."""

    def reference(layer: Any, x: Tensor) -> Tensor:
        y = relu(conv_norm(layer.first, x, stride, 1))
        return relu(conv_norm(layer.second, y, 1, 1) + shortcut(layer, x, stride))

    return reference


def bottleneck(stride: int) -> Any:
    """He et al. 2016, figure 5 right."""

    def reference(layer: Any, x: Tensor) -> Tensor:
        y = relu(conv_norm(layer.reduce, x, 1, 0))
        y = relu(conv_norm(layer.middle, y, stride, 1))
        return relu(conv_norm(layer.expand, y, 1, 0) + shortcut(layer, x, stride))

    return reference


CASES = [
    Case(
        "PatchEmbedding",
        nn.PatchEmbeddingConfig(channels=3, patch_size=(2, 3), d_model=5),
        lambda: (floats(2, 3, 4, 6),),
        patches,
        bad_shapes=((2, 4, 4, 6), (2, 3, 5, 6), (2, 3, 4, 5), (3, 4, 6)),
    ),
    Case(
        "PatchEmbedding/no bias",
        nn.PatchEmbeddingConfig(channels=2, patch_size=2, d_model=4, bias=False),
        lambda: (floats(2, 2, 4, 4),),
        patches,
    ),
    Case(
        "SqueezeExcite",
        nn.SqueezeExciteConfig(channels=4, d_hidden=2),
        lambda: (floats(2, 4, 3, 5),),
        squeezed,
        bad_shapes=((2, 3, 3, 5), (4, 3, 5)),
    ),
    Case(
        "LayerScale",
        nn.LayerScaleConfig(d_model=3, value=0.5),
        lambda: (floats(2, 4, 3),),
        lambda layer, x: torch.einsum("bld,d->bld", x, layer.gamma),
        bad_shapes=((2, 4),),
    ),
    Case(
        "ConvNorm2d",
        nn.ConvNorm2dConfig(channels=(4, 6), groups=2),
        lambda: (floats(3, 4, 5, 4),),
        lambda layer, x: relu(conv_norm(layer, x, 1, 1, 2)),
        train=False,
    ),
    Case(
        "ConvNorm2d/train",
        nn.ConvNorm2dConfig(channels=(2, 4), stride=2, padding=1, norm=GROUPS, activation=nn.IdentityConfig()),
        lambda: (floats(3, 2, 5, 4),),
        lambda layer, x: conv_norm(layer, x, 2, 1),
    ),
    Case(
        "DepthwiseSeparableConv2d",
        nn.DepthwiseSeparableConv2dConfig(channels=(4, 6)),
        lambda: (floats(3, 4, 5, 4),),
        separable,
        train=False,
    ),
    Case(
        "DepthwiseSeparableConv2d/group norm",
        nn.DepthwiseSeparableConv2dConfig(channels=(4, 6), norm=GROUPS),
        lambda: (floats(3, 4, 5, 4),),
        separable,
    ),
    Case(
        "BasicBlock",
        nn.BasicBlockConfig(channels=(4, 4)),
        lambda: (floats(2, 4, 5, 4),),
        basic(1),
        train=False,
        bad_shapes=((2, 3, 5, 4), (4, 5, 4)),
    ),
    Case("BasicBlock/train", nn.BasicBlockConfig(channels=(4, 4)), lambda: (floats(2, 4, 5, 4),), basic(1)),
    Case("BasicBlock/stride", nn.BasicBlockConfig(channels=(4, 4), stride=2), lambda: (floats(2, 4, 5, 4),), basic(2)),
    Case(
        "Bottleneck",
        nn.BottleneckConfig(channels=(4, 8), stride=2, norm=GROUPS),
        lambda: (floats(2, 4, 5, 4),),
        bottleneck(2),
        bad_shapes=((2, 8, 5, 4),),
    ),
    Case(
        "Bottleneck/zero",
        nn.BottleneckConfig(channels=(8, 8), reduction=2, zero_last=True),
        lambda: (floats(2, 8, 5, 4),),
        bottleneck(1),
        train=False,
    ),
]
