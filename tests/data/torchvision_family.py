"""Every transform of torchvision that has a config, and ours beside torchvision's: `python -m` this module.

A process of its own, since a program in which torchvision can be imported is another one to transformers.
"""

import inspect
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from burnlike.config import Config, TransformConfig
from burnlike.data import InMemDataset
from burnlike.data.transforms import configs as ours, datasets, images as photos
from burnlike.errors import ConfigError
from tests.interop.families.sweep import load

LEFT_OUT = {
    *("Compose", "Lambda", "RandomApply", "RandomChoice", "RandomOrder", "LinearTransformation"),  # no plain values
    *("ClampBoundingBoxes", "ClampKeyPoints", "ConvertBoundingBoxFormat", "RandomIoUCrop", "SanitizeBoundingBoxes"),
    *("SanitizeKeyPoints", "SetClampingMode"),  # of boxes and points
    *("FiveCrop", "TenCrop", "UniformTemporalSubsample"),  # several images of one
    *("ConvertImageDtype", "ToDtype", "ToImage", "ToPILImage", "PILToTensor", "ToPureTensor", "ToTensor", "JPEG"),
    *("Identity", "Transform", "InterpolationMode", "AutoAugmentPolicy"),
    *("MixUp", "CutMix"),  # of batches: ours
}
NOT_FIELDS = {"inplace"}
ARGUMENTS = {
    "CenterCrop": "size: [9, 11]", "ColorJitter": "brightness: 0.4, hue: [-0.1, 0.1]", "GaussianBlur": "kernel_size: 3",
    "Normalize": "mean: [0.4], std: [0.2]", "Pad": "padding: [1, 2]",
    "RandomAdjustSharpness": "sharpness_factor: 2, p: 1",
    "RandomAffine": "degrees: 30, translate: [0.1, 0.1], scale: [0.8, 1.2]", "RandomCrop": "size: 12, padding: 2",
    "RandomPosterize": "bits: 3, p: 1", "RandomResize": "min_size: 12, max_size: 20",
    "RandomResizedCrop": "size: [12, 10]", "RandomRotation": "degrees: [-20, 40]",
    "RandomShortestSize": "min_size: [12, 14]",
    "RandomSolarize": "threshold: 0.5, p: 1", "Resize": "size: [14, 12], interpolation: bicubic",
    "ScaleJitter": "target_size: [20, 20]", "RandomErasing": "p: 1", "AutoAugment": "policy: cifar10",
}  # fmt: skip
MOVE_MASKS = {
    *("CenterCrop", "ElasticTransform", "Pad", "RandomAffine", "RandomCrop", "RandomHorizontalFlip", "ScaleJitter"),
    *("RandomPerspective", "RandomResize", "RandomResizedCrop", "RandomRotation", "RandomShortestSize", "Resize"),
    *("RandomVerticalFlip", "RandomZoomOut"),
}
POLICIES = {"AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"}


class Holder(Config):
    it: TransformConfig


def config_of(name: str) -> TransformConfig:
    return Holder.from_yaml(f"it: {{type: torchvision.{name}, {ARGUMENTS.get(name, '')}}}").it


def item() -> tuple[Tensor, Tensor]:
    image = torch.rand(3, 44, 46, generator=torch.Generator().manual_seed(5))
    return image, (image[0] > 0.5).long()


def applied(config: TransformConfig, seed: int, *, has_mask: bool) -> Any:
    image, mask = item()
    dataset = config.init(InMemDataset([(image, mask if has_mask else 1)]))
    torch.manual_seed(seed)
    return dataset[0]


def check_signatures(v2: Any) -> None:
    """The table has each class of torchvision, with its arguments and defaults."""
    classes = {name for name, it in vars(v2).items() if inspect.isclass(it)}
    known = {**ours.RANDOM, **ours.FIXED}
    assert classes - LEFT_OUT == {*known}, (classes - LEFT_OUT) ^ {*known}
    for name, fields in known.items():
        wanted = {
            key: it.default
            for key, it in inspect.signature(getattr(v2, name)).parameters.items()
            if key not in NOT_FIELDS
        }
        assert [*fields] == [*wanted], (name, [*fields], [*wanted])
        for key, (_, *default) in fields.items():
            theirs = wanted[key]
            theirs = getattr(theirs, "value", theirs)
            assert default == ([] if theirs is inspect.Parameter.empty else [theirs]), (name, key)


def check_each() -> None:
    """Draws are of torch's generator alone; masks keep their values, and move with the image."""
    for name in (*ours.RANDOM, *ours.FIXED):
        config = config_of(name)
        has_mask = name not in POLICIES
        draws = []
        for start in (1, 2):
            random.seed(start)
            np.random.seed(start)
            draws.append([applied(config, seed, has_mask=has_mask) for seed in range(6)])
        for (image, target), (other, other_target) in zip(*draws, strict=True):
            assert torch.equal(image, other), name
            assert (type(image), image.dtype) == (Tensor, torch.float32), name
            if not has_mask:
                assert target == 1
                continue
            assert torch.equal(target, other_target), name
            assert (type(target), target.dtype) == (Tensor, torch.int64), name
            assert image.shape[-2:] == target.shape, (name, image.shape, target.shape)
            assert set(target.unique().tolist()) <= {0, 1}, name
        image, mask = item()
        assert any(not torch.equal(found, image) for found, _ in draws[0]) or name == "RGB", name
        if has_mask:
            assert any(not torch.equal(found, mask) for _, found in draws[0]) == (name in MOVE_MASKS), name
        else:
            refused(config)
        assert config.parts == (("train",) if name in ours.RANDOM else ("train", "valid"))


def refused(config: TransformConfig) -> None:
    with pytest.raises(ConfigError, match="is for images without masks"):
        applied(config, 1, has_mask=True)


def same(own: Any, theirs: Any, images: list[Tensor]) -> None:
    for seed, image in enumerate(images * 4):
        torch.manual_seed(seed)
        found = own((image, 0))[0]
        torch.manual_seed(seed)
        torch.testing.assert_close(
            found, theirs(image), rtol=0, atol=2e-6, msg=lambda it: f"{type(own).__name__}: {it}"
        )


def check_ours(v2: Any) -> None:
    """Numbers of our own transforms are torchvision's."""
    generator = torch.Generator().manual_seed(7)
    images = [torch.rand(3, *size, generator=generator) for size in ((20, 31), (33, 12), (16, 16), (5, 60))]
    same(photos.RandomResizedCrop((12, 9)), v2.RandomResizedCrop((12, 9)), images)
    same(
        photos.RandomResizedCrop((12, 9), (0.5, 1.0), (1.0, 1.5)),
        v2.RandomResizedCrop((12, 9), (0.5, 1.0), (1.0, 1.5)),
        images,
    )
    same(photos.Resize((10, 14)), v2.Resize((10, 14)), images)
    same(photos.Resize(11), v2.Resize(11), images)
    same(photos.CenterCrop((4, 7)), v2.CenterCrop((4, 7)), images)
    ranges = ((0.6, 1.4), (0.5, 1.5), (0.2, 1.8), (-0.3, 0.3))
    same(photos.ColorJitter(*ranges), v2.ColorJitter(*ranges), images)
    same(photos.ColorJitter(hue=(0.1, 0.5)), v2.ColorJitter(hue=(0.1, 0.5)), images)
    grey = [it[:1] for it in images]
    same(photos.ColorJitter(*ranges), v2.ColorJitter(*ranges), grey)
    batch, labels = torch.rand(6, 3, 13, 17, generator=generator), torch.arange(6) % 4
    items: Any = [(x, int(y)) for x, y in zip(batch, labels, strict=True)]
    up, cut = (
        (datasets.MixUp(0.4), v2.MixUp(alpha=0.4, num_classes=4)),
        (datasets.CutMix(1.0), v2.CutMix(num_classes=4)),
    )
    for own, theirs in (up, cut) * 4:
        data = datasets.MixedDataset(items, [(own, 1.0)])
        data.expect(["a", "b", "c", "d"], None)
        seed = int(torch.randint(1000, (), generator=generator))
        torch.manual_seed(seed)
        found, shares = data.batch(range(6), torch.device("cpu"))
        torch.manual_seed(seed)
        expected, expected_shares = theirs(batch, labels)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(shares, expected_shares)
    mask = torch.randint(5, (20, 31), generator=generator)
    from torchvision import tv_tensors  # pyright: ignore[reportMissingImports]

    torch.manual_seed(3)
    found = photos.RandomResizedCrop((12, 9))((images[0], mask))
    torch.manual_seed(3)
    expected = v2.RandomResizedCrop((12, 9))(tv_tensors.Image(images[0]), tv_tensors.Mask(mask))
    torch.testing.assert_close(found[0], expected[0].as_subclass(Tensor), rtol=0, atol=2e-6)
    assert torch.equal(found[1], expected[1].as_subclass(Tensor))


if __name__ == "__main__":
    load()
    from torchvision.transforms import v2  # pyright: ignore[reportMissingImports]

    check_signatures(v2)
    check_ours(v2)
    check_each()
    print("ok")
