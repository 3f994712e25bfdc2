"""Transforms that a training config lists, and data sets joined by it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.cli.commands import check, train
from burnlike.cli.main import main
from burnlike.config import Config, TransformConfig
from burnlike.data import (
    ComposedConfig,
    ComposedDataset,
    DataLoader,
    DigitsConfig,
    InMemDataset,
    MapperDataset,
    SamplerDataset,
    SelectionDataset,
    Splits,
    WindowsDataset,
    transformed,
)
from burnlike.data.sources.splits import composed
from burnlike.errors import ArgumentError, ConfigError, DataError, ShapeError
from burnlike.train import Job, TrainConfig, load_run
from burnlike.train.job.loaded_run import evaluate_run
from tests.cli.commands import run
from tests.train.samples import write_config

CONFIG = """\
data: {type: Digits}
model: {type: Sequential, layers: [{type: Flatten}, {type: Linear, d_input: 64, d_output: 10}]}
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {batch_size: 64}
transforms:
"""
IMAGE = torch.arange(24.0).reshape(2, 3, 4)


def of_text(text: str) -> TransformConfig:
    class Holder(Config):
        it: TransformConfig

    return Holder.from_yaml(f"it: {text}").it


def made(text: str, items: list[Any]) -> list[Any]:
    dataset = of_text(text).init(InMemDataset(items))
    return [dataset[index] for index in range(len(dataset))]


def job_of(tmp_path: Path, *transforms: str) -> Job:
    file = tmp_path / "job.yaml"
    file.write_text(CONFIG + "".join(f"  - {it}\n" for it in transforms))
    return Job(TrainConfig.load(file))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{type: Selection, indices: [3, 0, 0]}", ["d", "a", "a"]),
        ("{type: Partial, start: 1, end: 3}", ["b", "c"]),
        ("{type: Partial, start: 2}", ["c", "d"]),
        ("{type: Windows, size: 2, stride: 2}", [["a", "b"], ["c", "d"]]),
    ],
)
def test_items_are_chosen(text: str, expected: list[Any]) -> None:
    assert made(text, list("abcd")) == expected


def test_items_are_drawn_by_their_seed() -> None:
    items = list(range(40))
    assert sorted(made("{type: Shuffled, seed: 3}", items)) == items
    assert made("{type: Shuffled, seed: 3}", items) != made("{type: Shuffled, seed: 4}", items)
    assert len(set(made("{type: Sampler, ratio: 0.5}", items))) == 20
    assert len(made("{type: Sampler, size: 60}", items)) == 60
    assert len(set(made("{type: Sampler, size: 40, with_replacement: true}", items))) < 40


def test_channels_are_normalized() -> None:
    ((image, target),) = made("{type: Normalize, mean: [1, 2], std: [2, 4]}", [(IMAGE, 7)])
    assert target == 7
    assert torch.equal(image, torch.stack([(IMAGE[0] - 1) / 2, (IMAGE[1] - 2) / 4]))
    ((row, _),) = made("{type: Normalize, mean: [1], std: [2]}", [(IMAGE[0, 0], 0)])
    assert torch.equal(row, (IMAGE[0, 0] - 1) / 2)


def test_masks_are_changed_as_their_images() -> None:
    mask = IMAGE[0].long()
    ((image, flipped),) = made("{type: RandomHorizontalFlip, prob: 1}", [(IMAGE, mask)])
    assert torch.equal(image, IMAGE.flip(-1))
    assert torch.equal(flipped, mask.flip(-1))
    assert made("{type: RandomHorizontalFlip, prob: 0}", [(IMAGE, mask)])[0][0] is IMAGE
    torch.manual_seed(1)
    crops = made("{type: RandomCrop, size: [2, 2], padding: 1}", [(IMAGE + 1, mask + 1)] * 30)
    assert all(torch.equal(image[0], crop.float()) and image.shape == (2, 2, 2) for image, crop in crops)
    assert len({tuple(crop.flatten().tolist()) for _, crop in crops}) > 8
    assert any((crop == 0).any() for _, crop in crops)
    ((padded, _),) = made("{type: RandomCrop, padding: 2}", [(IMAGE, 1)])
    assert padded.shape == IMAGE.shape


@pytest.mark.parametrize(
    ("text", "item", "message"),
    [
        ("{type: Normalize, mean: [1, 2, 3], std: [1]}", (IMAGE, 0), "each of the 2 channels or columns"),
        ("{type: RandomCrop, size: [4, 4]}", (IMAGE, 0), "expected images of at least .4, 4."),
        ("{type: RandomHorizontalFlip}", (IMAGE[0], 0), "expected images .channels, height, width."),
        ("{type: RandomHorizontalFlip}", {"image": IMAGE}, "items that are .tensor, target., got dict"),
    ],
)
def test_items_that_do_not_fit_are_named(text: str, item: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        made(text, [item])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{type: Sampler}", "expected either `size` or `ratio`"),
        ("{type: Sampler, size: 2, ratio: 2}", "expected either `size` or `ratio`"),
        ("{type: Partial, start: 3, end: 3}", "expected more than start, 3"),
        ("{type: RandomCrop}", "without them nothing is changed"),
        ("{type: Normalize, mean: [1], std: [0]}", "std"),
        ("{type: Shuffled, parts: [test]}", "parts"),
    ],
)
def test_wrong_configs_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        of_text(text)


def test_a_job_takes_them_in_their_order_and_for_their_parts(tmp_path: Path) -> None:
    plain = job_of(tmp_path, "{type: Partial, end: 100}")
    job = job_of(
        tmp_path,
        "{type: Partial, end: 100}",
        "{type: Selection, indices: [99, 5]}",
        "{type: Normalize, mean: [1], std: [2]}",
    )
    assert (len(plain.data.train), len(job.data.train)) == (100, 2)
    assert torch.equal(job.data.train[0][0], (plain.data.train[99][0] - 1) / 2)
    assert len(job.data.valid) == len(plain.data.valid)
    assert torch.equal(job.data.valid[3][0], (plain.data.valid[3][0] - 1) / 2)
    assert torch.equal(job.data.splits["test"][3][0], (plain.data.splits["test"][3][0] - 1) / 2)
    with pytest.raises(ArgumentError, match="Partial: expected 0 <= start <= end"):
        job_of(tmp_path, "{type: Partial, end: 5000}")


def test_check_knows_the_shape_of_what_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    text = CONFIG.replace("d_input: 64", "d_input: 36")
    file.write_text(text + "  - {type: RandomCrop, size: [6, 6], parts: [train, valid]}\n")
    assert run(check, file, "--shapes") == 0
    assert "[64, 1, 6, 6]" in capsys.readouterr().out


def test_a_transform_of_a_users_own_is_a_config() -> None:
    class Brighter(TransformConfig, tag="BrighterForThisTest"):
        by: float = 1.0

        def init(self, dataset: Any) -> Any:
            return MapperDataset(dataset, lambda item: (item[0] + self.by, *item[1:]))

    ((image, _),) = made("{type: BrighterForThisTest, by: 2}", [(IMAGE, 0)])
    assert torch.equal(image, IMAGE + 2)


def test_without_transforms_the_data_is_as_it_was() -> None:
    data = DigitsConfig().init()
    assert transformed(data, ()) is data


def test_joined_data_sets_come_one_after_the_other() -> None:
    first, second = DigitsConfig(split_seed=1).init(), DigitsConfig(split_seed=2).init()
    config = ComposedConfig(datasets=(DigitsConfig(split_seed=1), DigitsConfig(split_seed=2)))
    joined = config.init()
    assert (len(joined.train), len(joined.valid)) == (2 * len(first.train), 2 * len(first.valid))
    assert torch.equal(joined.train[len(first.train)][0], second.train[0][0])
    assert len(joined.splits["test"]) == 2 * len(first.splits["test"])
    images, targets = next(iter(DataLoader(joined.train, batch_size=3)))
    assert (list(images.shape), list(targets.shape)) == ([3, 1, 8, 8], [3])


def test_data_sets_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected the item_shape of the first one"):
        ComposedConfig.from_dict({"datasets": [{"type": "Digits"}, {"type": "Digits", "flat": True}]}, "a test")

    class Named(InMemDataset[Tensor]):
        def __init__(self, classes: list[str]) -> None:
            super().__init__([IMAGE])
            self.classes = classes

    parts = [Splits(Named(classes), Named(classes)) for classes in (["a", "b"], ["b", "c"])]
    with pytest.raises(DataError, match=r"datasets.1: expected the classes of the first data set"):
        composed(parts)
    with pytest.raises(
        DataError, match="whose batches are stacked items, as those of the first data set, got made by int"
    ):
        composed(
            [Splits(InMemDataset([1]), InMemDataset([1])), Splits(InMemDataset([1]), InMemDataset([1]), batcher=1)]
        )


def test_items_that_were_left_out_are_counted_in_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image = pytest.importorskip("PIL.Image")
    for kind in ("cats", "dogs"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for number in range(6):
            Image.new("RGB", (8, 8), (number * 40, 9, 9)).save(tmp_path / "photos" / kind / f"{number}.png")
    (tmp_path / "photos" / "cats" / "3.png").write_bytes(b"no image")
    file = tmp_path / "job.yaml"
    data = f"{{type: ImageFolder, path: {tmp_path / 'photos'}, validation_fraction: 0.2}}"
    text = CONFIG.replace("{type: Digits}", data).replace("d_input: 64", "d_input: 192").removesuffix("transforms:\n")
    file.write_text(text.replace("batch_size: 64", "batch_size: 4, on_bad_item: skip, epochs: 2"))
    assert run(train, file, "--run-dir", tmp_path / "run") == 0
    log = (tmp_path / "run" / "log.txt").read_text()
    for epoch in (1, 2):
        assert f"epoch {epoch}: left out 1 items that can't be read: item " in log
        (line,) = (it for it in log.splitlines() if f" epoch {epoch}: left out" in it and "validation" not in it)
        assert "cats/3.png" in line
    assert run(train, file, "--run-dir", tmp_path / "other", "--set", "data.validation_fraction=0.8") == 0
    out = capsys.readouterr().out
    for part in ("validation of epoch 1", "validation of epoch 2", "valid"):
        assert f"{part}: left out 1 items that can't be read: item " in out
    done = evaluate_run(load_run(tmp_path / "run"), "all", notes={})
    assert done.items == 11
    assert "cats/3.png" in done.left_out[0]
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "photos"), "--batch-size", "1"]) == 0
    printed = capsys.readouterr()
    names = [line.split(",")[0].rsplit("/", 2)[1:] for line in printed.out.splitlines()[1:]]
    places = [[kind, f"{number}.png"] for kind in ("cats", "dogs") for number in range(6)]
    assert names == [it for it in places if it != ["cats", "3.png"]]
    assert "left out 1 of the inputs, as in the training: item 3 " in printed.err
    assert main(["data", str(file), "--first", "12"]) == 0
    out = capsys.readouterr().out
    assert "unread    1 of 12: " in out


def test_rows_that_were_left_out_are_known_through_transforms_and_parts() -> None:
    class Rows(InMemDataset[int]):
        unreadable = ("rows:3: no number",)

    parts = [SelectionDataset(Rows([1, 2, 3]), [0, 1]), Rows([4])]
    for dataset in (*parts, SamplerDataset(parts[0], 3), WindowsDataset(parts[0], 2), MapperDataset(parts[1], float)):
        with pytest.raises(DataError, match=r"rows:3: no number. Mend the data"):
            DataLoader(dataset, batch_size=1)
    assert DataLoader(ComposedDataset(parts), batch_size=1, on_bad_item="skip").skipped == 2


def test_a_language_model_is_trained_on_a_part_of_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path)
    part = "transforms=[{type: Partial, end: 20, parts: [train, valid]}]"
    short = ["training.epochs=1", "training.steps_per_epoch=2", "lr_scheduler.warmup_steps=1"]
    assert run(train, config, "--run-dir", tmp_path / "run", *(it for o in (part, *short) for it in ("--set", o))) == 0
    printed = capsys.readouterr().out
    assert "20 items to train on, 20 to validate on" in printed
    assert "sample, drawn with the written model" in printed
    assert "bigram" not in printed  # its text would be another
