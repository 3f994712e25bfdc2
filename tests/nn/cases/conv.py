"""Cases of convolutions, and of the layers that rearrange pixels and windows."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from burnlike import nn

from . import Case, floats


def padded(conv: Any, *amounts: int) -> Any:
    """The formula of a convolution of an input with these amounts of zeros around it, from the last dimension on."""

    def reference(layer: Any, x: Tensor) -> Tensor:
        x = functional.pad(x, amounts)
        return conv(x, layer.weight, layer.bias, layer.stride, 0, layer.dilation, layer.groups)

    return reference


def transposed(conv: Any, cut: tuple[int, ...], out: tuple[int, ...]) -> Any:
    """The whole transposed convolution with `out` zeros at the end, `cut` off both ends; then the bias."""

    def reference(layer: Any, x: Tensor) -> Tensor:
        whole = conv(x, layer.weight, None, layer.stride, 0, 0, layer.groups, layer.dilation)
        amounts = [it for size, more in zip(cut[::-1], out[::-1], strict=True) for it in (-size, more - size)]
        return functional.pad(whole, amounts) + layer.bias.reshape(-1, *[1] * len(cut))

    return reference


def deformed(layer: Any, x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
    """The sum over taps of what `grid_sample` reads."""
    (kernel_h, kernel_w), groups = layer.kernel_size, layer.offset_groups
    (batch, channels, height, width), (out_h, out_w) = x.shape, offset.shape[2:]
    pad = 0 if layer.padding == "Valid" else layer.padding[0]
    moves = offset.reshape(batch, groups, kernel_h * kernel_w, 2, out_h, out_w)
    factors = None if mask is None else mask.reshape(batch, groups, kernel_h * kernel_w, out_h, out_w)
    rows: list[Tensor] = []
    for group, part in enumerate(x.chunk(groups, 1)):
        taps: list[Tensor] = []
        for tap in range(kernel_h * kernel_w):
            y = torch.arange(out_h)[:, None] * layer.stride[0] + tap // kernel_w * layer.dilation[0] - pad
            z = torch.arange(out_w)[None, :] * layer.stride[1] + tap % kernel_w * layer.dilation[1] - pad
            y, z = y + moves[:, group, tap, 0], z + moves[:, group, tap, 1]
            grid = torch.stack((2 * z / (width - 1) - 1, 2 * y / (height - 1) - 1), -1)
            read = functional.grid_sample(part, grid, align_corners=True)
            taps.append(read if factors is None else read * factors[:, group, tap][:, None])
        rows.append(torch.stack(taps, 2))
    columns = torch.cat(rows, 1).reshape(batch, channels * kernel_h * kernel_w, 1, out_h * out_w)
    weight = layer.weight.flatten(1)[..., None, None]
    return functional.conv2d(columns, weight, layer.bias, groups=layer.weight_groups).reshape(batch, -1, out_h, out_w)


CASES = [
    Case(
        "Conv1d",
        nn.Conv1dConfig(channels_in=4, channels_out=6, kernel_size=3, stride=2, dilation=2, groups=2, padding=1),
        lambda: (floats(2, 4, 9),),
        bad_shapes=((4, 9), (2, 3, 9), (2, 4, 2)),
    ),
    Case(
        "Conv1d/same",
        nn.Conv1dConfig(channels_in=2, channels_out=3, kernel_size=3, padding="Same"),
        lambda: (floats(2, 2, 7),),
    ),
    Case(
        "Conv1d/same_strided",
        nn.Conv1dConfig(channels_in=2, channels_out=3, kernel_size=4, stride=2, padding="Same"),
        lambda: (floats(2, 2, 7),),
        padded(functional.conv1d, 1, 2),  # 4 outputs of 7 elements: (4 - 1) * 2 + 4 - 7 zeros
    ),
    Case(
        "Conv1d/asymmetric",
        nn.Conv1dConfig(channels_in=2, channels_out=3, kernel_size=3, padding=(2, 0), bias=False),
        lambda: (floats(2, 2, 7),),
        padded(functional.conv1d, 2, 0),
    ),
    Case(
        "Conv2d",
        nn.Conv2dConfig(channels=(2, 3), kernel_size=3),
        lambda: (floats(2, 2, 6, 5),),
        bad_shapes=((2, 6, 5), (2, 3, 6, 5), (2, 2, 2, 5), (2, 2, 6, 2)),
    ),
    Case(
        "Conv2d/grouped",
        nn.Conv2dConfig(
            channels=(4, 4),
            kernel_size=(3, 2),
            stride=(2, 1),
            dilation=(1, 2),
            groups=4,
            padding=(1, 2, 1, 2),
            bias=False,
        ),
        lambda: (floats(2, 4, 6, 5),),
    ),
    Case("Conv2d/same", nn.Conv2dConfig(channels=(2, 3), kernel_size=3, padding="Same"), lambda: (floats(2, 2, 6, 5),)),
    Case(
        "Conv2d/same_strided",
        nn.Conv2dConfig(channels=(2, 3), kernel_size=(3, 2), stride=(2, 1), padding="Same"),
        lambda: (floats(2, 2, 6, 5),),
        padded(functional.conv2d, 0, 1, 0, 1),  # width: 1 zero for 5 outputs; height: 1 zero for 3
    ),
    Case(
        "Conv2d/asymmetric",
        nn.Conv2dConfig(channels=(2, 3), kernel_size=3, padding=(1, 2, 3, 4)),
        lambda: (floats(2, 2, 4, 5),),
        padded(functional.conv2d, 2, 4, 1, 3),
    ),
    Case(
        "Conv3d",
        nn.Conv3dConfig(channels=(2, 4), kernel_size=(2, 3, 2), stride=(1, 2, 1), groups=2, padding=(1, 0, 1)),
        lambda: (floats(2, 2, 3, 4, 3),),
        bad_shapes=((2, 2, 4, 3), (2, 1, 3, 4, 3), (2, 2, 3, 2, 3)),
    ),
    Case(
        "Conv3d/same", nn.Conv3dConfig(channels=(1, 2), kernel_size=3, padding="Same"), lambda: (floats(1, 1, 3, 4, 3),)
    ),
    Case(
        "ConvTranspose1d",
        nn.ConvTranspose1dConfig(channels=(4, 6), kernel_size=3, stride=2, groups=2, padding=1, padding_out=1),
        lambda: (floats(2, 4, 5),),
        bad_shapes=((4, 5), (2, 3, 5), (2, 4, 0)),
    ),
    Case(
        "ConvTranspose1d/larger_padding_out",
        nn.ConvTranspose1dConfig(channels=(2, 3), kernel_size=3, padding=1, padding_out=3),
        lambda: (floats(2, 2, 5),),
        transposed(functional.conv_transpose1d, (1,), (3,)),
    ),
    Case(
        "ConvTranspose2d",
        nn.ConvTranspose2dConfig(channels=(2, 3), kernel_size=(3, 2), stride=(2, 1), dilation=(1, 2), bias=False),
        lambda: (floats(2, 2, 3, 4),),
        bad_shapes=((2, 3, 4), (2, 3, 3, 4)),
    ),
    Case(
        "ConvTranspose2d/larger_padding_out",
        nn.ConvTranspose2dConfig(channels=(2, 4), kernel_size=3, stride=2, groups=2, padding=(1, 0), padding_out=2),
        lambda: (floats(2, 2, 3, 4),),
        transposed(functional.conv_transpose2d, (1, 0), (2, 2)),
    ),
    Case(
        "ConvTranspose3d",
        nn.ConvTranspose3dConfig(channels=(2, 3), kernel_size=2, stride=(1, 2, 1), padding=(1, 0, 0)),
        lambda: (floats(2, 2, 3, 2, 3),),
        bad_shapes=((2, 3, 2, 3), (2, 1, 3, 2, 3), (2, 2, 1, 2, 3)),
    ),
    Case(
        "DeformConv2d",
        nn.DeformConv2dConfig(channels=(2, 3), kernel_size=(3, 2)),
        lambda: (floats(2, 2, 5, 4), floats(2, 12, 3, 3)),
        deformed,
        bad_shapes=((2, 5, 4), (2, 3, 5, 4), (2, 2, 2, 4), (2, 2, 5, 5)),
    ),
    Case(
        "DeformConv2d/options",
        nn.DeformConv2dConfig(
            channels=(4, 6),
            kernel_size=3,
            stride=2,
            dilation=2,
            weight_groups=2,
            offset_groups=4,
            padding=2,
            bias=False,
        ),
        lambda: (floats(2, 4, 5, 6), floats(2, 72, 3, 3), floats(2, 36, 3, 3)),
        deformed,
    ),
    Case(
        "Unfold4d",
        nn.Unfold4dConfig(kernel_size=(2, 3), stride=(2, 1), dilation=(1, 2), padding=(1, 0)),
        lambda: (floats(2, 2, 5, 6),),
        bad_shapes=((2, 5, 6), (2, 2, 5, 4)),
    ),
    Case(
        "Fold4d",
        nn.Fold4dConfig(output_size=(5, 6), kernel_size=(2, 3), stride=(2, 1), dilation=(1, 2), padding=(1, 0)),
        lambda: (floats(2, 12, 6),),
        bad_shapes=((2, 12, 7), (2, 13, 6), (12, 6)),
    ),
    Case(
        "PixelShuffle",
        nn.PixelShuffleConfig(upscale_factor=2),
        lambda: (floats(2, 8, 3, 2),),
        bad_shapes=((8, 3, 2), (2, 6, 3, 2)),
    ),
    Case(
        "PixelUnshuffle",
        nn.PixelUnshuffleConfig(downscale_factor=3),
        lambda: (floats(2, 2, 6, 3),),
        bad_shapes=((2, 6, 3), (2, 2, 5, 3), (2, 2, 6, 4)),
    ),
]
