"""Transforms of images and of other values, beside torchvision's."""

import io
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from burnlike.config import Config, TransformConfig
from burnlike.data import (
    ComposedDataset,
    DataLoader,
    DigitsConfig,
    ImageFolderConfig,
    InMemDataset,
    MapperDataset,
    PartialDataset,
    SamplerDataset,
    SelectionDataset,
    ShuffledDataset,
    Splits,
    TensorDataset,
    WindowsDataset,
    transformed,
)
from burnlike.errors import ArgumentError, ConfigError, DataError, ShapeError
from burnlike.train import Classification, Job, RunDir, TrainConfig

GENERATOR = torch.Generator().manual_seed(3)


def of_text(text: str) -> TransformConfig:
    class Holder(Config):
        it: TransformConfig

    return Holder.from_yaml(f"it: {text}").it


def applied(text: str, item: Any, seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return of_text(text).init(InMemDataset([item]))[0]


def image(*size: int) -> Tensor:
    return torch.rand(3, *size, generator=GENERATOR)


def test_sizes() -> None:
    x, mask = image(12, 20), torch.arange(240).view(12, 20) % 7
    found, moved = applied("{type: Resize, size: [6, 10]}", (x, mask))
    torch.testing.assert_close(found, functional.interpolate(x[None], (6, 10), mode="bilinear", antialias=True)[0])
    assert torch.equal(moved, mask[::2, ::2])
    assert applied("{type: Resize, size: 6}", (x, 1))[0].shape == (3, 6, 10)
    found, moved = applied("{type: CenterCrop, size: [4, 8]}", (x, mask))
    assert torch.equal(found, x[:, 4:8, 6:14])
    assert torch.equal(moved, mask[4:8, 6:14])
    with pytest.raises(ShapeError, match=r"CenterCrop: expected images of at least \[40, 8\], got one of \[12, 20\]"):
        applied("{type: CenterCrop, size: [40, 8]}", (x, 0))


def test_a_random_part_is_of_the_image_and_its_mask() -> None:
    x = torch.arange(32 * 40.0).view(1, 32, 40).expand(3, 32, 40) / 1280
    mask = torch.arange(32 * 40).view(32, 40)
    shares = []
    for seed in range(30):
        found, moved = applied("{type: RandomResizedCrop, size: [8, 8], scale: [0.2, 0.6]}", (x, mask), seed)
        assert found.shape == (3, 8, 8)
        assert moved.shape == (8, 8)
        assert (found[0] * 1280 - moved).abs().max() < 6 * 40  # the same place, by means and by the nearest
        rows, columns = moved // 40, moved % 40
        shares.append(float((rows.max() - rows.min() + 4) * (columns.max() - columns.min() + 4)) / 1280)
    assert 0.15 < min(shares) < 0.35
    assert 0.45 < max(shares) < 0.75
    assert applied("{type: RandomResizedCrop, size: [8, 8]}", (x, 3))[1] == 3


def test_colours_change_within_their_ranges() -> None:
    x = image(5, 6)
    bright = applied("{type: ColorJitter, brightness: [0.5, 0.5]}", (x, 0))[0]
    torch.testing.assert_close(bright, x / 2)
    grey = applied("{type: ColorJitter, saturation: [0.0, 0.0]}", (x, 0))[0]
    torch.testing.assert_close(grey, (x * torch.tensor([0.2989, 0.587, 0.114]).view(3, 1, 1)).sum(0).expand(3, 5, 6))
    flat = applied("{type: ColorJitter, contrast: [0.0, 0.0]}", (x, 0))[0]
    assert flat.unique().numel() == 1
    turned = applied("{type: ColorJitter, hue: [0.5, 0.5]}", (torch.tensor([1.0, 0.0, 0.0]).view(3, 1, 1), 0))[0]
    torch.testing.assert_close(turned.flatten(), torch.tensor([0.0, 1.0, 1.0]))
    for seed in range(5):
        found = applied("{type: ColorJitter, brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1}", (x, 0), seed)
        assert 0 <= float(found[0].min()) <= float(found[0].max()) <= 1
        assert not torch.equal(found[0], x)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{type: ColorJitter}", "expected `brightness`, `contrast`, `saturation` or `hue`"),
        ("{type: ColorJitter, hue: 0.7}", "hue: expected"),
        ("{type: ColorJitter, hue: -0.2}", "hue: expected a number >= 0 or a range"),
        ("{type: ColorJitter, contrast: [1.2, 0.8]}", "contrast: expected the smaller number first, got 1.2 and 0.8"),
        ("{type: RandomResizedCrop, size: [8, 8], scale: [0.5, 2]}", "scale: expected shares of the area up to 1"),
        ("{type: RandomResizedCrop, size: 8}", "size: expected a list of 2 items"),
        ("{type: MixUp, parts: [valid]}", "parts"),
        ("{type: CutMix, alpha: 0}", "alpha: expected a finite number > 0"),
    ],
)
def test_mistakes_are_found_before_any_image_is_read(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        of_text(text)


def mixed(*texts: str, classes: Any = ("a", "b", "c"), targets: Tensor | None = None, batcher: Any = None) -> Any:
    labels = torch.arange(8) % 3 if targets is None else targets
    data = TensorDataset(torch.rand(8, 3, 6, 6, generator=GENERATOR), labels)
    return transformed(Splits(data, data, batcher, classes=classes), [of_text(it) for it in texts])


def test_mixed_targets_have_the_shares_of_the_images() -> None:
    data = mixed("{type: MixUp, alpha: 1.0}")
    first = next(iter(DataLoader(data.train, batch_size=8, seed=1)))
    again = next(iter(DataLoader(data.train, batch_size=8, seed=1, num_workers=1)))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    order = DataLoader(data.train, batch_size=8, seed=1).indices(0, 0)
    x, y = (torch.stack([torch.as_tensor(data.valid[it][part]) for it in order]) for part in (0, 1))
    share = float(((first[0] - x.roll(1, 0)) / (x - x.roll(1, 0))).median())
    assert 0 < share < 1
    torch.testing.assert_close(first[0], share * x + (1 - share) * x.roll(1, 0), rtol=1e-4, atol=1e-5)
    one_hot = functional.one_hot(y, 3).float()
    torch.testing.assert_close(first[1], share * one_hot + (1 - share) * one_hot.roll(1, 0), rtol=1e-3, atol=1e-4)
    assert next(iter(DataLoader(data.valid, batch_size=8)))[1].dim() == 1  # a validation is not mixed


def test_a_part_of_each_image_is_anothers() -> None:
    data = mixed(
        "{type: Normalize, mean: [0.5], std: [0.5]}", "{type: CutMix}", "{type: RandomHorizontalFlip, prob: 0}"
    )
    loader = DataLoader(data.train, batch_size=8, seed=4)
    images, shares = next(iter(loader))
    x = torch.stack([data.valid[it][0] for it in loader.indices(0, 0)])
    own = (images == x).all(1).double().mean((1, 2))
    assert (((images == x) | (images == x.roll(1, 0))).all(1)).all()
    torch.testing.assert_close(shares.max(1).values.double(), torch.maximum(own, 1 - own), rtol=1e-6, atol=1e-6)


def test_one_of_several_ways_is_drawn_for_each_batch() -> None:
    data = mixed("{type: MixUp, alpha: 1.0}", "{type: CutMix}", "{type: Sampler, ratio: 20}")
    plain = mixed("{type: MixUp, prob: 0.0}", "{type: Sampler, ratio: 20}")
    x = torch.stack([data.valid[it][0] for it in range(8)])
    kinds = [bool(torch.isin(images, x).all()) for images, _ in DataLoader(data.train, batch_size=8, seed=2)]
    assert 4 < sum(kinds) < 16  # of CutMix every number is one of the data's
    shares = torch.cat([it for _, it in DataLoader(plain.train, batch_size=8, seed=2)])
    assert set(shares.unique().tolist()) == {0.0, 1.0}


def test_what_can_not_be_mixed_is_said() -> None:
    class Stack:
        def batch(self, items: Any, device: Any) -> Any:
            raise AssertionError

    with pytest.raises(ConfigError, match="mix batches of images, and the batches of this data are made by Stack"):
        mixed("{type: MixUp}", batcher=Stack())
    with pytest.raises(DataError, match="need the names of the classes, which this data lacks"):
        next(iter(DataLoader(mixed("{type: MixUp}", classes=None).train, batch_size=8)))
    with pytest.raises(DataError, match=r"images of one class each, got targets of torch.float32\[8\]; leave them out"):
        next(iter(DataLoader(mixed("{type: MixUp}", targets=torch.rand(8)).train, batch_size=8)))
    several = mixed("{type: MixUp}", targets=torch.randint(2, (8, 3), generator=GENERATOR)).train
    assert next(iter(DataLoader(several, batch_size=8)))[1].shape == (8, 3)


def test_a_loss_of_shares_is_the_mean_of_the_losses() -> None:
    logits, classes = torch.randn(6, 3, dtype=torch.float64, generator=GENERATOR), torch.arange(6) % 3
    one_hot = functional.one_hot(classes, 3).double()
    found = Classification().train_step(torch.nn.Identity(), (logits, 0.7 * one_hot + 0.3 * one_hot.roll(1, 0)))
    each = (functional.cross_entropy(logits, it) for it in (classes, classes.roll(1)))
    torch.testing.assert_close(found.loss, 0.7 * next(each) + 0.3 * next(each))
    assert torch.equal(found.targets, classes)


@pytest.mark.slow
def test_a_mixed_training_validates_and_measures_whole_images(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "data: {type: Digits}\n"
        "model: {type: Sequential, layers: [{type: Flatten}, {type: Linear, d_input: 64, d_output: 10}]}\n"
        "task: {type: Classification}\n"
        "transforms: [{type: MixUp}, {type: CutMix}]\n"
        "metrics: [{type: Accuracy}]\n"
        "optimizer: {type: AdamW}\n"
        "lr_scheduler: {type: ConstantLr, lr: 1e-2}\n"
        "training: {batch_size: 64, epochs: 2, train_metrics: true}\n"
    )
    job = Job(TrainConfig.load(file))
    run = RunDir.create(tmp_path / "run")
    result = job.run(run)
    run.close()
    assert isinstance(DigitsConfig().init().valid[0][1], Tensor)
    assert 50 < result.values["valid"]["accuracy"] <= 100


def folder(tmp_path: Path) -> Path:
    for place, name in enumerate(("a.png", "deep/b.jpg", "deep/c.png")):
        file = tmp_path / "photos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        turned = Image.new("RGB", (8, 6), (40 * place, 0, 90))
        exif = turned.getexif()
        exif[0x112] = 6 if name.endswith("jpg") else 1
        turned.save(file, exif=exif)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    return tmp_path / "photos"


def test_new_images_are_read_as_those_of_the_training(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    config = ImageFolderConfig(path="anywhere", size=(6, 4))
    found = config.unlabeled([photos, photos / "a.png"], {"classes": ["x", "y"]}, tmp_path)
    assert found.names == [str(photos / it) for it in ("a.png", "deep/b.jpg", "deep/c.png", "a.png")]
    assert [it[0].shape for it in map(found.dataset.__getitem__, range(4))] == [(3, 6, 4)] * 4
    assert found.dataset[0][1] == 0
    listed = config.unlabeled([io.StringIO(f"{photos / 'a.png'}\n\n{photos / 'deep' / 'c.png'}\n")], {}, tmp_path)
    assert listed.names == [str(photos / "a.png"), str(photos / "deep" / "c.png")]
    own = ImageFolderConfig(path="anywhere", masks="nowhere", mode="L").unlabeled([photos / "deep"], {}, tmp_path)
    pixels, mask = own.dataset[0]
    assert (pixels.shape, mask.shape, mask.dtype) == ((1, 8, 6), (8, 6), torch.int64)  # upright, as its EXIF says
    with pytest.raises(DataError, match=r"an image: there is no file or directory .*missing.png"):
        config.unlabeled([photos / "missing.png"], {}, tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=r"empty: expected images \(.png"):
        config.unlabeled([empty], {}, tmp_path)


def test_a_folder_of_images_is_described(tmp_path: Path) -> None:
    for number, name in enumerate(("cat", "dog", "dog")):
        file = tmp_path / name / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        Image.new("RGB", (10 + number, 7)).save(file)
    data = ImageFolderConfig(path=str(tmp_path), validation_fraction=0.4, size=(4, 5)).init()
    assert data.classes == ["cat", "dog"]
    items, classes, sizes = data.describe()
    assert items == "items     2 train, 1 valid"
    assert classes in ("classes   cat 1, dog 1", "classes   cat 0, dog 2")
    assert sizes == "sizes     7 x 10 to 7 x 12 (height x width), median 7 x 11, read as 4 x 5"
    first, second = data.examples(5)
    assert first.endswith("float32[3, 4, 5] in 0..0")
    assert f"{tmp_path / 'dog' / '2.png'}: dog; " in second or "1.png: dog; " in second


TEN = InMemDataset(range(10))


def times_three(item: int) -> int:
    return item * 3


def test_mapper() -> None:
    of = MapperDataset(TEN, times_three)
    assert (len(of), of[4]) == (10, 12)


def test_shuffled_has_every_item_once_in_an_order_of_its_seed() -> None:
    first, again, other = (list(ShuffledDataset(TEN, seed)) for seed in (1, 1, 2))
    assert first == again
    assert sorted(first) == sorted(other) == list(range(10))
    assert len({tuple(first), tuple(other), tuple(range(10))}) == 3


@pytest.mark.parametrize("mask_of", [torch.tensor, numpy.array, list], ids=["torch", "numpy", "list"])
def test_a_mask_selects_the_items_for_which_it_is_true(mask_of: Any) -> None:
    mask = mask_of([index % 3 == 0 for index in range(10)])
    assert list(SelectionDataset(TEN, mask)) == torch.arange(10)[torch.as_tensor(mask)].tolist() == [0, 3, 6, 9]


def test_sampler_without_replacement_takes_each_before_any_again() -> None:
    items = list(SamplerDataset(TEN, 25, seed=3))
    assert sorted(items[:10]) == sorted(items[10:20]) == list(range(10))
    assert len(set(items[20:])) == 5
    assert len(SamplerDataset(TEN, ratio=0.5)) == 5
    assert len(SamplerDataset(TEN, 0)) == 0


def test_sampler_with_replacement_draws_each_equally_often() -> None:
    counts = Counter(SamplerDataset(TEN, 20_000, with_replacement=True, seed=5))
    assert set(counts) == set(range(10))
    assert all(1800 < count < 2200 for count in counts.values())  # 4.7 standard deviations


def test_partial_splits_as_burn_does() -> None:
    assert [list(it) for it in PartialDataset.split(TEN, 3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
    assert [list(it) for it in PartialDataset.split_chunks(TEN, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(PartialDataset(TEN, 2, 5)) == [2, 3, 4]


def test_windows() -> None:
    assert list(WindowsDataset(TEN, 3, 4)) == [[0, 1, 2], [4, 5, 6]]
    assert len(WindowsDataset(TEN, 3)) == 8
    assert len(WindowsDataset(TEN, 11)) == 0


def test_composed() -> None:
    of = ComposedDataset([TEN, InMemDataset([]), InMemDataset("ab")])
    assert list(of) == [*range(10), "a", "b"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SelectionDataset(TEN, [10]),
        lambda: SelectionDataset(TEN, [-1]),
        lambda: SelectionDataset(TEN, torch.ones(9, dtype=torch.bool)),
        lambda: SelectionDataset(TEN, [True, False]),
        lambda: SamplerDataset(TEN),
        lambda: SamplerDataset(TEN, 3, ratio=0.5),
        lambda: SamplerDataset(TEN, -1),
        lambda: SamplerDataset(InMemDataset([]), 1),
        lambda: PartialDataset(TEN, 3, 11),
        lambda: PartialDataset(TEN, 3, 2),
        lambda: PartialDataset.split(TEN, 11),
        lambda: PartialDataset.split_chunks(TEN, 0),
        lambda: WindowsDataset(TEN, 0),
    ],
)
def test_what_can_not_be_made_is_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="expected"):
        make()


ALL = [
    MapperDataset(TEN, times_three),
    SelectionDataset(TEN, [1, 2]),
    ShuffledDataset(TEN, 1),
    SamplerDataset(TEN, 3),
    PartialDataset(TEN, 1, 4),
    ComposedDataset([TEN, TEN]),
    WindowsDataset(TEN, 2),
]


@pytest.mark.parametrize("of", ALL, ids=lambda it: type(it).__name__)
def test_each_is_pickled_and_knows_its_end(of: Any) -> None:
    assert list(pickle.loads(pickle.dumps(of))) == list(of)
    with pytest.raises(IndexError):
        of[len(of)]


def test_fingerprints_follow_the_data_and_what_is_made_of_it() -> None:
    named = InMemDataset(range(4))
    named.fingerprint = "a"
    made = [
        SelectionDataset(named, [1]),
        SelectionDataset(named, [2]),
        ComposedDataset([named, named]),
        WindowsDataset(named, 2),
        WindowsDataset(named, 3),
    ]
    found = [it.fingerprint for it in made]
    assert len(set(found)) == len(found)
    assert None not in found
    assert MapperDataset(named, times_three).fingerprint == "a"
    assert [it.fingerprint for it in ALL[:1]] == [None]
    assert SelectionDataset(TEN, [1]).fingerprint is None


def test_only_a_function_may_draw() -> None:
    assert not any(it.draws for it in ALL[1:])
    assert SelectionDataset(ALL[0], [1]).draws
    assert next(iter(DataLoader(SelectionDataset(TEN, [3, 4]), batch_size=2))).tolist() == [3, 4]


ROOT = Path(__file__).parents[2]


@pytest.mark.families
def test_every_transform_and_our_own_beside_them() -> None:
    """Arguments, draws, masks, and our numbers: `torchvision_family.py`."""
    command = [sys.executable, "-W", "error::UserWarning", "-m", "tests.data.torchvision_family"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.endswith("ok\n")


def test_mistakes_are_found_without_torchvision() -> None:
    class Holder(Config):
        it: TransformConfig

    for text, message in (
        ("{type: torchvision.RandomResizedCrp, size: [8, 8]}", r"did you mean 'torchvision.RandomResizedCrop'"),
        ("{type: torchvision.RandomResizedCrop, size: [8]}", "it.size: expected"),
        ("{type: torchvision.RandomSolarize}", "threshold"),
        ("{type: torchvision.AutoAugment, policy: imagent}", "imagenet"),
        ("{type: torchvision.Lambda}", "unknown type 'torchvision.Lambda'"),
    ):
        with pytest.raises(ConfigError, match=message):
            Holder.from_yaml(f"it: {text}")
    with pytest.raises(ConfigError, match=r"needs the package torchvision: pip install 'burnlike\[torchvision\]'"):
        Holder.from_yaml("it: {type: torchvision.TrivialAugmentWide}").it.init([])
