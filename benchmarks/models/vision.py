"""A training step of image models (forward, cross-entropy, backward, AdamW): `fuse` and TorchOptimizer beside the stock
model and torch's fused AdamW.

A small ResNet (BasicBlocks) and a stack of ConvNeXt's blocks of these benchmarks, and ten families of torchvision and
timm at 64 x 64, which `make .cache/families/.installed` installs. In bfloat16 the whole model is in it. The rows "in
channels_last" have the stock model and its images in that layout. Both sides begin with the same weights; the note has
the losses of the first step.

    python -m benchmarks.models.vision ["small_resnet float32" ...]
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from burnlike.interop import TorchOptimizer, fuse
from burnlike.models import ConvNextConfig, ResNetConfig, UNetConfig
from burnlike.optim import AdamWConfig

from .._harness import Comparison, compare, main
from . import torch_convnext, torch_resnet, torch_unet

CLASSES = 10


def _small_resnet() -> nn.Module:
    return torch_resnet.ResNet(
        ResNetConfig(
            depths=(2, 2, 2, 2), widths=(32, 64, 128, 256), stem_channels=32, stem="Small", num_classes=CLASSES
        )
    )


def _convnext_stack() -> nn.Module:
    sizes: Any = {"depths": (2, 2, 2, 2), "widths": (48, 96, 192, 384)}
    return torch_convnext.ConvNext(ConvNextConfig(num_classes=CLASSES, **sizes, layer_scale=0.1))


def _unet() -> nn.Module:
    return torch_unet.UNet(UNetConfig(num_classes=CLASSES, widths=(16, 32, 64, 128)))


@cache
def _libraries() -> tuple[Any, Any]:
    from tests.interop.families.sweep import load

    return load()


def _of_torchvision(name: str) -> Callable[[], nn.Module]:
    return lambda: _libraries()[0].models.get_model(name, num_classes=CLASSES)


def _of_timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: _libraries()[1].create_model(name, num_classes=CLASSES, **options)


MODELS: dict[str, tuple[Callable[[], nn.Module], int, int, float]] = {
    "small_resnet": (_small_resnet, 32, 32, 1.6),
    "convnext_stack": (_convnext_stack, 8, 64, 1.3),
    "resnet": (_of_torchvision("resnet18"), 16, 64, 1.2),
    "resnext": (_of_torchvision("resnext50_32x4d"), 8, 64, 1.2),
    "regnet": (_of_torchvision("regnet_y_400mf"), 16, 64, 1.2),
    "efficientnet": (_of_torchvision("efficientnet_b0"), 16, 64, 1.2),
    "mobilenet_v3": (_of_torchvision("mobilenet_v3_large"), 16, 64, 1.2),
    "convnext": (_of_torchvision("convnext_tiny"), 8, 64, 1.2),
    "vit": (_of_timm("vit_tiny_patch16_224", img_size=64, patch_size=8), 16, 64, 1.2),
    "swin": (_of_torchvision("swin_t"), 8, 64, 1.2),
    "densenet": (_of_torchvision("densenet121"), 8, 64, 1.2),
    "unet": (_unet, 8, 64, 1.2),
}
"""By name: a function that makes the model, the number and size of its images, and the bar."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
IN_CHANNELS_LAST, CHANNELS_LAST_BAR = "in channels_last", 1.1
NAMES = [
    *(f"{name} {dtype}" for name in MODELS for dtype in DTYPES),
    *(f"small_resnet {dtype} {IN_CHANNELS_LAST}" for dtype in DTYPES),
]


def step_of(model: nn.Module, x: Tensor, targets: Tensor, optimizer: torch.optim.Optimizer) -> Callable[[], Tensor]:
    """A training step, which returns its loss; of a U-Net with one class for each image."""

    def step() -> Tensor:
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy((logits if logits.dim() == 2 else logits.mean((2, 3))).float(), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def measured(name: str, repeats: int) -> Comparison:
    """One row by its name."""
    model_name, dtype_name, *layout = name.split(" ", 2)
    make, count, size, bar = MODELS[model_name]
    torch.manual_seed(0)
    stock = make().to(DTYPES[dtype_name]).train()
    x = torch.randn(count, 3, size, size).to(DTYPES[dtype_name])
    targets = torch.randint(0, CLASSES, (count,))
    fused = copy.deepcopy(stock)
    fuse(fused)
    ours = step_of(fused, x, targets, TorchOptimizer(fused, AdamWConfig(), lr=1e-4))
    if layout:  # of the stock side alone
        stock, x = stock.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    theirs = step_of(stock, x, targets, torch.optim.AdamW(stock.parameters(), lr=1e-4, fused=True))
    losses: list[float] = []
    for step in (ours, theirs):
        torch.manual_seed(1)
        losses.append(step().item())
    note = f"first losses {losses[0]:.5f} and {losses[1]:.5f}"
    bar = CHANNELS_LAST_BAR if layout else bar
    return compare(name, ours, theirs, theirs_name="stock", bar=bar, repeats=repeats, note=note)


def run(repeats: int, names: Sequence[str] = ()) -> list[Comparison]:
    """Measure all, or some by name."""
    warnings.simplefilter("ignore")
    return [measured(name, min(repeats, 20)) for name in NAMES if not names or name in names]


if __name__ == "__main__":
    main(__doc__ or "", run, names=NAMES)
