"""torchvision's ResNet, written out in torch.nn with its names, as its `.pt` files have them."""

from collections.abc import Mapping

from torch import Tensor, nn

from burnlike.models import ResNetConfig

NAMES: Mapping[str, str] = {
    r"^stem\.conv": "conv1",
    r"^stem\.norm": "bn1",
    **{rf"^stages\.{index}": f"layer{index + 1}" for index in range(4)},
    r"\.(first|reduce)\.conv": ".conv1",
    r"\.(first|reduce)\.norm": ".bn1",
    r"\.(second|middle)\.conv": ".conv2",
    r"\.(second|middle)\.norm": ".bn2",
    r"\.expand\.conv": ".conv3",
    r"\.expand\.norm": ".bn3",
    r"\.shortcut\.conv": ".downsample.0",
    r"\.shortcut\.norm": ".downsample.1",
    r"^head": "fc",
}
"""Patterns in the paths of ours, and what torchvision has in place of it."""


class Block(nn.Module):
    """torchvision's BasicBlock and Bottleneck in one."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        width = channels_out // 4 if bottleneck else channels_out
        kernels, strides = ((1, 3, 1), (1, stride, 1)) if bottleneck else ((3, 3), (stride, 1))
        sizes = [channels_in, width, width, channels_out] if bottleneck else [channels_in, width, width]
        self.count = len(kernels)
        for index in range(self.count):
            conv = nn.Conv2d(
                sizes[index], sizes[index + 1], kernels[index], strides[index], kernels[index] // 2, bias=False
            )
            setattr(self, f"conv{index + 1}", conv)
            setattr(self, f"bn{index + 1}", nn.BatchNorm2d(sizes[index + 1]))
        self.relu = nn.ReLU()
        self.downsample = None
        if stride != 1 or channels_in != channels_out:
            conv = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(channels_out))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for index in range(1, self.count + 1):
            y = getattr(self, f"bn{index}")(getattr(self, f"conv{index}")(y))
            if index < self.count:
                y = self.relu(y)
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """torchvision's ResNet of four stages."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        stem, bottleneck = config.stem_channels, config.block == "Bottleneck"
        small = config.stem == "Small"  # as those who train on CIFAR change torchvision's
        self.conv1 = nn.Conv2d(3, stem, 3, 1, 1, bias=False) if small else nn.Conv2d(3, stem, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        self.relu = nn.ReLU()
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        channels = stem
        for index, (depth, width) in enumerate(zip(config.depths, config.widths, strict=True)):
            blocks = [Block(channels, width, 1 if index == 0 else 2, bottleneck)]
            blocks += [Block(width, width, 1, bottleneck) for _ in range(depth - 1)]
            setattr(self, f"layer{index + 1}", nn.Sequential(*blocks))
            channels = width
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, config.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for index in range(1, 5):
            x = getattr(self, f"layer{index}")(x)
        return self.fc(self.avgpool(x).flatten(1))
