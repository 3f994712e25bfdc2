"""Fingerprints follow what files hold: not where they are, what time they bear, or how often they are read."""

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy
import pytest
import torch
from PIL import Image

from burnlike.config import DatasetConfig
from burnlike.data import (
    ComposedConfig,
    CsvConfig,
    DataLoader,
    HuggingFaceConfig,
    ImageFolderConfig,
    InMemDataset,
    JsonLinesConfig,
    TextCorpusConfig,
    TokensConfig,
    dataset,
)
from burnlike.data.codec import train_tokenizer
from burnlike.data.dataset import FileFingerprint
from burnlike.errors import CheckpointError, DataError
from burnlike.train import Job, PlainRenderer, RunDir, TrainConfig


def write_images(folder: Path, mode: str = "RGB") -> None:
    folder.mkdir(parents=True)
    for number in range(3):
        pixels = numpy.random.default_rng([number, *folder.name.encode()]).integers(0, 2, (4, 4, 3), dtype=numpy.uint8)
        Image.fromarray(pixels if mode == "RGB" else pixels[..., 0]).save(folder / f"{number}.png")


def classes_of_images(root: Path) -> None:
    for part in ("train", "valid"):
        for name in "ab":
            write_images(root / part / name)


def images_with_masks(root: Path) -> None:
    write_images(root / "images")
    write_images(root / "masks", "L")


def table(root: Path) -> None:
    for name in ("train", "valid"):
        lines = [f"{number + len(name)},{number}\n" for number in range(10)]
        (root / f"{name}.csv").write_text("a,y\n" + "".join(lines))
        (root / f"{name}.jsonl").write_text(
            "".join(f'{{"a":{it.split(",")[0]},"y":{it.split(",")[1][0]}}}\n' for it in lines)
        )


def tokens(root: Path) -> None:
    for number, name in enumerate(("train", "valid")):
        numpy.arange(number, 100, dtype="uint16").tofile(root / f"{name}.bin")


def text(root: Path) -> None:
    for name in ("train", "valid"):
        (root / f"{name}.txt").write_text(f"{name} of some words and more words\n" * 20)
    train_tokenizer(["some words and more words"], 300).save(str(root / "tokenizer.json"))


def rows(root: Path) -> None:
    both = [
        datasets.Dataset.from_dict({"x": [float(i) for i in range(8)], "y": [i % classes for i in range(8)]})
        for classes in (2, 3)
    ]
    datasets.DatasetDict({"train": both[0], "validation": both[1]}).save_to_disk(str(root / "rows"))


NUMBERS: dict[str, Any] = {"target": "y", "kind": "numbers"}

SOURCES: dict[str, tuple[Callable[[Path], None], Callable[[Path], DatasetConfig], str]] = {
    "csv": (table, lambda it: CsvConfig(path=f"{it}/train.csv", validation_path=f"{it}/valid.csv", **NUMBERS), "*.csv"),
    "json lines": (
        table,
        lambda it: JsonLinesConfig(path=f"{it}/train.jsonl", validation_path=f"{it}/valid.jsonl", **NUMBERS),
        "*.jsonl",
    ),
    "classes of images": (
        classes_of_images,
        lambda it: ImageFolderConfig(path=f"{it}/train", validation_path=f"{it}/valid"),
        "**/*.png",
    ),
    "images with masks": (
        images_with_masks,
        lambda it: ImageFolderConfig(path=f"{it}/images", masks=f"{it}/masks"),
        "**/*.png",
    ),
    "tokens": (
        tokens,
        lambda it: TokensConfig(path=f"{it}/train.bin", validation_path=f"{it}/valid.bin", context_length=4),
        "*.bin",
    ),
    "one file of tokens": (tokens, lambda it: TokensConfig(path=f"{it}/train.bin", context_length=4), "train.bin"),
    "text": (
        text,
        lambda it: TextCorpusConfig(
            path=f"{it}/train.txt",
            validation_path=f"{it}/valid.txt",
            tokenizer=f"{it}/tokenizer.json",
            context_length=4,
        ),
        "*.*",
    ),
    "hugging face": (rows, lambda it: HuggingFaceConfig(path=f"{it}/rows"), "**/*.arrow"),
    "composed": (
        tokens,
        lambda it: ComposedConfig(
            datasets=tuple(TokensConfig(path=f"{it}/{name}.bin", context_length=4) for name in ("train", "valid"))
        ),
        "*.bin",
    ),
}


def fingerprints(config: DatasetConfig) -> tuple[str, str]:
    data: Any = config.init()
    assert isinstance(data.fingerprint, str)
    assert isinstance(data.train.fingerprint, str)
    return data.fingerprint, data.train.fingerprint


def change(file: Path) -> None:
    """Another content of the same size, with the times that it had."""
    times = file.stat()
    content = bytearray(file.read_bytes())
    if file.suffix == ".json":
        content = bytearray(content.replace(b'"version": "1.0"', b'"version":"1.0" '))
    elif file.suffix in (".txt", ".csv", ".jsonl"):
        place = max(content.rfind(digit) for digit in b"0123456789e")
        content[place] = ord("t") if content[place] == ord("e") else (content[place] - 47) % 10 + 48
    elif file.suffix == ".arrow":
        place = content.rfind(numpy.arange(1, 3, dtype="float64").tobytes())
        assert place > 0
        content[place] ^= 1
    else:
        content[-1] ^= 1
    assert content != file.read_bytes()
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("name", SOURCES)
def test_a_fingerprint_follows_every_file_and_neither_times_nor_places(tmp_path: Path, name: str) -> None:
    write, config, pattern = SOURCES[name]
    root = tmp_path / "before"
    root.mkdir()
    write(root)
    before = fingerprints(config(root))
    for file in root.rglob("*"):
        os.utime(file, (1, 1))
    assert fingerprints(config(root)) == before
    shutil.copytree(root, tmp_path / "elsewhere" / "copied")
    shutil.rmtree(root)
    root = tmp_path / "elsewhere" / "copied"
    assert fingerprints(config(root)) == before
    files = sorted(root.glob(pattern))
    seen = {before}
    for file in files:
        content = file.read_bytes()
        change(file)
        seen.add(fingerprints(config(root)))
        file.write_bytes(content)
    for place in range(2):
        assert len({it[place] for it in seen}) == len(files) + 1 > 1
    assert fingerprints(config(root)) == before


def test_labels_belong_to_a_fingerprint(tmp_path: Path) -> None:
    config = ImageFolderConfig(path=str(tmp_path / "train"))
    classes_of_images(tmp_path)
    before = fingerprints(config)
    for source, target in (("a", "t"), ("b", "a"), ("t", "b")):
        (tmp_path / "train" / source).rename(tmp_path / "train" / target)
    assert fingerprints(config) != before


def test_files_that_a_map_of_hugging_face_has_left_do_not_belong_to_the_data(tmp_path: Path) -> None:
    rows(tmp_path)
    config = HuggingFaceConfig(path=str(tmp_path / "rows"))
    before = fingerprints(config)
    (tmp_path / "rows" / "train" / "cache-1.arrow").write_bytes(b"left over")
    assert fingerprints(config) == before


def test_a_file_that_cannot_be_read_has_a_fingerprint(tmp_path: Path) -> None:
    assert FileFingerprint({"a": tmp_path / "none"})() == FileFingerprint({"a": tmp_path / "other"})()


def test_large_data_are_read_once_and_again_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(dataset, "_REMEMBERED_FROM_BYTES", 1)
    file = tmp_path / "data"
    file.write_bytes(b"one")
    read: list[Path] = []
    digest = dataset._digest
    monkeypatch.setattr(dataset, "_digest", lambda it: read.append(it) or digest(it))
    first = FileFingerprint({"data": file})()
    cache = tmp_path / "cache" / "burnlike" / "fingerprints.json"
    assert not cache.exists()  # it may still change within the same tick of the file system's clock
    monkeypatch.setattr(dataset, "_SETTLED_S", -1.0)
    assert [FileFingerprint({"data": file})() for _ in range(3)] == [first] * 3
    assert len(read) == 2
    assert len(json.loads(cache.read_text())) == 1
    change(file)
    assert FileFingerprint({"data": file})() != first
    for damaged in (b"{", b"[1]", b'{"a": 1}', b"\xff"):
        cache.write_bytes(damaged)
        file.write_bytes(b"one")
        assert FileFingerprint({"data": file})() == first
    cache.unlink()
    cache.mkdir()
    assert FileFingerprint({"data": file})() == first
    assert sorted(it.name for it in cache.parent.iterdir()) == ["fingerprints.json"]


def test_a_loader_knows_data_without_a_fingerprint_by_its_own() -> None:
    state = DataLoader(InMemDataset([1, 2]), batch_size=1, fingerprint="a").state_dict()
    DataLoader(InMemDataset([1, 2]), batch_size=1, fingerprint="a").load_state_dict(state)
    with pytest.raises(DataError, match="fingerprint a, is 2 items with the fingerprint b now"):
        DataLoader(InMemDataset([1, 2]), batch_size=1, fingerprint="b").load_state_dict(state)


CONFIG = """
data: {type: ImageFolder, path: %s, masks: %s}
model: {type: Sequential, layers: [{type: Conv2d, channels: [3, 2], kernel_size: [3, 3], padding: Same}]}
task: {type: Segmentation}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: %d, batch_size: 2, background_checkpoints: false}
threads: 1
"""


def run(directory: Path, images: Path, masks: Path, epochs: int) -> None:
    run = RunDir.open(directory) if directory.exists() else RunDir.create(directory)
    try:
        Job(TrainConfig.from_yaml(CONFIG % (images, masks, epochs))).run(run, PlainRenderer(io.StringIO()))
    finally:
        run.close()


def test_a_run_resumes_with_copied_images_and_not_with_other_masks(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    images_with_masks(tmp_path)
    run(tmp_path / "run", tmp_path / "images", tmp_path / "masks", 1)
    shutil.copytree(tmp_path / "images", tmp_path / "copied", copy_function=shutil.copyfile)
    run(tmp_path / "run", tmp_path / "copied", tmp_path / "masks", 2)
    Image.new("L", (4, 4)).save(tmp_path / "masks" / "1.png")
    with pytest.raises(CheckpointError, match=r"the data of the run .* has changed since its checkpoint"):
        run(tmp_path / "run", tmp_path / "copied", tmp_path / "masks", 3)
    torch.set_num_threads(threads)
