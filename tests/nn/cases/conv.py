"""Cases of convolutions."""

from typing import Any

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
]
