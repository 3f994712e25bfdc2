"""Twins of the layers that timm derives from torch's."""

from typing import Any

import timm.layers as theirs  # pyright: ignore[reportMissingImports]
import torch
from timm.models import metaformer  # pyright: ignore[reportMissingImports]
from torch import Tensor
from torch.nn import functional

from ... import nn as layers
from ...errors import NoCounterpartError
from ...nn.padding import each
from ..registered_classes import register_twin


class _ThenActivates:
    """A norm, then what `drop` and `act` compute."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x)))  # pyright: ignore[reportAttributeAccessIssue]


class _ChannelsFirst:
    """A norm of the last dimension, for `[batch, channels, height, width]`."""

    def forward(self, x: Tensor) -> Tensor:
        channels_last = super().forward(x.permute(0, 2, 3, 1))  # pyright: ignore[reportAttributeAccessIssue]
        return channels_last.permute(0, 3, 1, 2)


class _SamePadding:
    """A layer with TensorFlow's padding, which gives ceil(size / stride) values."""

    pad_value = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(_padded(self, x, self.pad_value))  # pyright: ignore[reportAttributeAccessIssue]


class _SameMaxPadding(_SamePadding):
    pad_value = float("-inf")


class _Standardized(layers.Conv2d):
    """A convolution whose weight has mean 0 and variance 1 for each channel (Qiao et al. 2019)."""

    eps: float

    def forward(self, x: Tensor) -> Tensor:
        if getattr(self, "same_pad", False):
            x = _padded(self, x)
        gain = (self.gain * self.scale).view(-1) if "gain" in self._parameters else None  # pyright: ignore
        rows = self.weight.reshape(1, self.weight.shape[0], -1)
        weight = functional.batch_norm(rows, None, None, gain, training=True, momentum=0.0, eps=self.eps)
        padding = 0 if self.padding == "Valid" else self.padding[:2]
        return torch.conv2d(
            x,
            weight.reshape_as(self.weight),
            self.bias,
            self.stride,
            padding,  # pyright: ignore[reportArgumentType]
            self.dilation,
            self.groups,
        )


def _padded(layer: Any, x: Tensor, value: float = 0.0) -> Tensor:
    dilation = getattr(layer, "dilation", 1)
    sizes = [each(it, 2) for it in (layer.kernel_size, layer.stride, dilation)]
    return theirs.pad_same(x, *sizes, value=value)


def _expect_torchs(layer: Any) -> None:
    if vars(layer).get("_fast_norm"):
        raise NoCounterpartError(f"{type(layer).__name__}: timm's fast norm has no counterpart; set_fast_norm(False)")


_BASES: dict[str, tuple[type, ...]] = {
    "Conv2dSame": (_SamePadding, layers.Conv2d),
    "MaxPool2dSame": (_SameMaxPadding, layers.MaxPool2d),
    "AvgPool2dSame": (_SamePadding, layers.AvgPool2d),  # whose zeros count
    "Linear": (layers.Linear,),
    "PReLU": (layers.PRelu,),
    "BatchNormAct2d": (_ThenActivates, layers.BatchNorm),
    "GroupNorm": (layers.GroupNorm,),
    "GroupNorm1": (layers.GroupNorm,),
    "GroupNormAct": (_ThenActivates, layers.GroupNorm),
    "GroupNorm1Act": (_ThenActivates, layers.GroupNorm),
    "LayerNorm": (layers.LayerNorm,),
    "LayerNormNoBias": (layers.LayerNorm,),
    "LayerNormAct": (_ThenActivates, layers.LayerNorm),
    "LayerNorm2d": (_ChannelsFirst, layers.LayerNorm),
    "LayerNorm2dNoBias": (_ChannelsFirst, layers.LayerNorm),
    "LayerNormExp2d": (_ChannelsFirst, layers.LayerNorm),
    "LayerNormAct2d": (_ThenActivates, _ChannelsFirst, layers.LayerNorm),
    **dict.fromkeys(("StdConv2d", "StdConv2dSame", "ScaledStdConv2d", "ScaledStdConv2dSame"), (_Standardized,)),
}
"""Name of a class of timm -> the bases of its twin, which has the same name and adds nothing to them."""
_CLASSES: dict[str, Any] = {name: type(name, bases, {"__module__": __name__}) for name, bases in _BASES.items()}
globals().update(_CLASSES)  # where pickles look for them


def register() -> None:
    """Make these twins known."""
    for kind in _CLASSES.values():
        places = (theirs, theirs.pool2d_same, metaformer)
        if (their := next((vars(it)[kind.__name__] for it in places if kind.__name__ in vars(it)), None)) is not None:
            register_twin(their, kind, _expect_torchs)
