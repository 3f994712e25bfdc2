"""Data sets from files: what batches hold, and what damaged files say."""

import json
import os
from pathlib import Path
from typing import Any

import datasets
import numpy
import pytest
import torch
from PIL import Image

from burnlike.data import (
    CsvConfig,
    DataLoader,
    DigitsConfig,
    HuggingFaceConfig,
    HuggingFaceDataset,
    ImageFolderConfig,
    JsonLinesConfig,
    MixUpConfig,
    ShuffledConfig,
    TokensConfig,
    transformed,
)
from burnlike.data.sources.splits import described
from burnlike.errors import ConfigError, DataError


def batches(dataset: Any, batch_size: int = 100) -> list[Any]:
    return list(DataLoader(dataset, batch_size=batch_size))


def write_csv(path: Path, *rows: str) -> str:
    path.write_text("\n".join(["a,b,kind", *rows]) + "\n")
    return str(path)


def test_csv_has_features_and_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", *(f"{i},{i / 2},{'xyz'[i % 3]}" for i in range(10)))
    data = CsvConfig(path=path, target="kind", validation_fraction=0.2).init()
    assert (data.features, data.classes) == (["a", "b"], ["x", "y", "z"])
    ((features, targets),), ((valid, _),) = batches(data.train), batches(data.valid)
    assert (len(features), len(valid)) == (8, 2)
    rows = sorted([*features[:, 0].tolist(), *valid[:, 0].tolist()])
    assert rows == list(range(10))
    assert torch.equal(features[:, 1], features[:, 0] / 2)
    assert torch.equal(targets, features[:, 0].long() % 3)


def test_data_without_parts_is_refused() -> None:
    for read in (described, lambda data: transformed(data, [ShuffledConfig()])):
        with pytest.raises(DataError, match=r"expected Splits\(train, valid\) from init\(\) of .*, got list"):
            read([1, 2])


def test_numbers_to_predict_and_a_file_for_validation(tmp_path: Path) -> None:
    train = write_csv(tmp_path / "t.csv", "1,2,3", "4,5,6.5")
    valid = write_csv(tmp_path / "v.csv", "7,8,9")
    config = CsvConfig(path=train, target="kind", features=("b",), kind="numbers", validation_path=valid)
    data = config.init()
    ((features, targets),) = batches(data.train)
    assert (features.tolist(), targets.tolist()) == ([[2.0], [5.0]], [3.0, 6.5])
    assert batches(data.valid)[0][1].tolist() == [9.0]


def test_classes_that_are_numbers_are_ordered_by_size(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "1,1,10", "1,1,2", "1,1,1")
    assert CsvConfig(path=path, target="kind").init().classes == ["1", "2", "10"]


@pytest.mark.parametrize(
    ("kind", "target"), [("classes", "kind"), ("labels", "kind"), ("labels", ("a", "b")), ("numbers", ("a", "b"))]
)
def test_items_have_their_types_whatever_the_default_is(tmp_path: Path, kind: Any, target: Any) -> None:
    (tmp_path / "n.csv").write_text("n,a,b,kind\n" + "".join(f"{it},1,0,x\n" for it in range(4)))
    config = CsvConfig(path=str(tmp_path / "n.csv"), features=("n",), target=target, kind=kind)
    torch.set_default_dtype(torch.float64)
    try:
        data = config.init()
        new = config.unlabeled([], {**data.facts, "classes": data.classes}, tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)
    wanted = torch.int64 if kind == "classes" else torch.float32
    assert [it.dtype for it in data.train[0]] == [torch.float32, wanted]
    assert [it.dtype for it in new.dataset.tensors] == [torch.float32, wanted]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"x": i, "y": -i}) + "\n\n" for i in range(5)))
    data = JsonLinesConfig(path=str(path), target="y", kind="numbers").init()
    assert len(data.train) + len(data.valid) == 5
    ((features, targets),) = batches(data.train)
    assert torch.equal(features[:, 0], -targets)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (["1,2"], {}, r"t.csv:2:1: expected 3 columns, as the first line has, got 2"),
        (["1,2,x", "1,oops,y"], {}, r"t.csv:3:3: 'b': expected a number, got 'oops'"),
        (["1,inf,y", "1,2,x"], {}, r"t.csv:2:3: 'b': expected a finite number"),
        (["1,2,x"], {"target": "kindd"}, r"t.csv:1:1: there is no column 'kindd'; did you mean 'kind'"),
        (["1,2,x", "1,2,y"], {"features": ("c",)}, r"there is no column 'c'"),
        (["1,2,x"], {}, r"expected at least two items"),
        ([], {}, r"expected at least one row"),
        (['"1,2,x'], {}, r"expected UTF-8 CSV"),
    ],
)
def test_damaged_tables_name_the_line(tmp_path: Path, rows: list[str], options: dict[str, Any], message: str) -> None:
    path = write_csv(tmp_path / "t.csv", *rows)
    with pytest.raises(DataError, match=message):
        CsvConfig(**{"path": path, "target": "kind", **options}).init()


def test_other_mistakes_in_tables(tmp_path: Path) -> None:
    train, valid = write_csv(tmp_path / "t.csv", "1,2,x"), write_csv(tmp_path / "v.csv", "1,2,y")
    with pytest.raises(DataError, match=r"v.csv:2:5: 'kind' is 'y', a class that the training has not"):
        CsvConfig(path=train, target="kind", validation_path=valid).init()
    with pytest.raises(DataError, match=r"data.path: there is no file or directory"):
        CsvConfig(path=str(tmp_path / "none.csv"), target="kind").init()
    with pytest.raises(ConfigError, match="columns other than the target"):
        CsvConfig(path=train, target="kind", features=("kind",))
    for text, message in (("{", r":1:2: expected one JSON object"), ("[1]", r":1:1: expected a JSON object, got list")):
        (tmp_path / "t.jsonl").write_text(text)
        with pytest.raises(DataError, match=message):
            JsonLinesConfig(path=str(tmp_path / "t.jsonl"), target="y").init()


def test_digits_has_three_parts_without_a_common_image() -> None:
    data = DigitsConfig().init()
    parts = [data.train, data.valid, data.splits["test"]]
    assert sum(map(len, parts)) == 1797
    images = [tuple(image.flatten().tolist()) for part in parts for image, _ in (part[i] for i in range(len(part)))]
    assert len(set(images)) == 1797
    ((image, target),) = batches(data.valid, 1000)
    assert (image.shape[1:], image.dtype, target.dtype) == ((1, 8, 8), torch.float32, torch.int64)
    assert (image.min(), image.max()) == (0, 1)
    assert batches(DigitsConfig(flat=True, test_fraction=0).init().valid, 1000)[0][0].shape[1:] == (64,)
    assert DigitsConfig().init().fingerprint != DigitsConfig(split_seed=1).init().fingerprint


def write_image(path: Path, pixels: Any, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(numpy.asarray(pixels, dtype=numpy.uint8))
    (image if mode == "RGB" else image.convert(mode)).save(path)


def test_folders_of_images(tmp_path: Path) -> None:
    for number, name in enumerate(["cat", "dog"]):
        for i in range(3):
            write_image(tmp_path / name / "below" / f"{i}.png", numpy.full((4, 6, 3), 100 * number + i))
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    data = ImageFolderConfig(path=str(tmp_path), validation_fraction=0.3).init()
    assert data.train.dataset.classes == ["cat", "dog"]
    ((images, targets),) = batches(data.train)
    assert images.shape == (4, 3, 4, 6)
    assert torch.equal((images[:, 0, 0, 0] * 255).round() >= 100, targets == 1)
    small = ImageFolderConfig(path=str(tmp_path), size=(2, 5), mode="L").init()
    assert small.train[0][0].shape == (1, 2, 5)


def test_images_with_masks(tmp_path: Path) -> None:
    for i in range(4):
        write_image(tmp_path / "images" / f"{i}.jpg", numpy.full((4, 4, 3), 40))
        write_image(tmp_path / "masks" / f"{i}.png", numpy.arange(16).reshape(4, 4) % 3)
    config = ImageFolderConfig(path=str(tmp_path / "images"), masks=str(tmp_path / "masks"), size=(8, 8))
    ((images, masks),) = batches(config.init().train)
    assert (images.shape, masks.shape) == ((3, 3, 8, 8), (3, 8, 8))
    expected = (torch.arange(16).reshape(4, 4) % 3).repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert torch.equal(masks[0], expected)
    (tmp_path / "masks" / "2.png").unlink()
    with pytest.raises(DataError, match=r"2.jpg has no mask: expected .*masks/2 with the extension"):
        config.init()


def test_damaged_folders_of_images(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a folder for each class"):
        ImageFolderConfig(path=str(tmp_path)).init()
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match=r"cat: expected images \(.png, .jpg"):
        ImageFolderConfig(path=str(tmp_path)).init()
    for i in range(3):
        write_image(tmp_path / "cat" / f"{i}.png", numpy.zeros((2, 2, 3)))
    (tmp_path / "cat" / "1.png").write_bytes(b"\x89PNG broken")
    data = ImageFolderConfig(path=str(tmp_path)).init()
    with pytest.raises(DataError, match=r"item \d of the data can't be read: .*1.png can't be read"):
        [batches(part) for part in (data.train, data.valid)]
    skipping = DataLoader(data.train.dataset, batch_size=3, on_bad_item="skip")
    assert next(iter(skipping))[0].shape[0] == 2
    assert skipping.skipped == 1


@pytest.mark.parametrize("kind", ["npy", "uint16", "int64"])
def test_tokens_are_mapped_not_read(tmp_path: Path, kind: str) -> None:
    tokens = numpy.arange(1000) % 300
    path = tmp_path / f"tokens.{'npy' if kind == 'npy' else 'bin'}"
    if kind == "npy":
        numpy.save(path, tokens.astype("uint32"))
    else:
        tokens.astype(kind).tofile(path)
    config = TokensConfig(path=str(path), dtype="uint16" if kind == "npy" else kind, context_length=9)
    data = config.init()
    assert isinstance(data.train.tokens, numpy.memmap)
    assert (len(data.train), len(data.valid)) == (99, 11)
    (batch,) = batches(data.train, 200)
    assert (batch.dtype, batch.shape) == (torch.int64, (99, 10))
    assert torch.equal(batch[3], torch.from_numpy(tokens[27:37]))
    assert data.valid[0][0] == tokens[900]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"abc", "expected numbers of 2 bytes"), (b"", "expected numbers of 2 bytes"), (b"ab" * 5, "at least 129 tokens")],
)
def test_damaged_files_of_tokens(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "tokens.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        TokensConfig(path=str(tmp_path / "tokens.bin")).init()
    numpy.save(tmp_path / "t.npy", numpy.zeros((3, 3)))
    with pytest.raises(DataError, match="expected one row of whole numbers, got float64"):
        TokensConfig(path=str(tmp_path / "t.npy")).init()
    (tmp_path / "t.npy").write_bytes(b"\x93NUMPY" + content)
    with pytest.raises(DataError, match="can't be read as tokens"):
        TokensConfig(path=str(tmp_path / "t.npy")).init()


def test_hugging_faces_data_sets(tmp_path: Path) -> None:
    rows = datasets.Dataset.from_dict({"x": [[float(i), 0.0] for i in range(10)], "label": [i % 2 for i in range(10)]})
    rows.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict({"train": rows, "validation": rows.select(range(3)), "test": rows}).save_to_disk(
        str(tmp_path / "parts")
    )
    one = HuggingFaceConfig(path=str(tmp_path / "one"), columns=("x", "label"), validation_fraction=0.2).init()
    assert (len(one.train), len(one.valid)) == (8, 2)
    ((x, label),) = batches(one.train)
    assert torch.equal(x[:, 0].long() % 2, label)
    parts = HuggingFaceConfig(path=str(tmp_path / "parts")).init()
    assert (len(parts.train), len(parts.valid), [*parts.splits]) == (10, 3, ["test"])
    assert batches(parts.train)[0]["label"].tolist() == rows["label"]
    assert one.fingerprint is not None
    assert one.fingerprint != parts.fingerprint
    assert HuggingFaceDataset(rows, ["label"])[3] == {"label": 1}
    with pytest.raises(DataError, match="there is no column 'lable'; did you mean 'label'"):
        HuggingFaceConfig(path=str(tmp_path / "one"), columns=("lable",)).init()
    with pytest.raises(DataError, match="there is no part 'trian'; it has train, validation, test"):
        HuggingFaceConfig(path=str(tmp_path / "parts"), train_split="trian").init()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="expected a folder that `save_to_disk`"):
        HuggingFaceConfig(path=str(tmp_path / "empty")).init()


def test_missing_values_of_hugging_faces_data_are_named(tmp_path: Path) -> None:
    columns = {
        "number": [1.0, None, 2.0],
        "class": [0, None, 1],
        "text": ["a", None, "b"],
        "list": [[1, 2], [1, None], [3, 4]],
        "truth": [True, None, False],
    }
    wide = HuggingFaceDataset(datasets.Dataset.from_dict({"x": [[0.5], [1e300]]}), ["x"])
    assert wide[0]["x"].tolist() == [0.5]
    with pytest.raises(DataError, match=r"row 1, column 'x': expected a number up to 3.4e\+38"):
        _ = wide[1]
    datasets.Dataset.from_dict(columns).save_to_disk(str(tmp_path))
    for name in columns:
        data = HuggingFaceConfig(path=str(tmp_path), columns=(name,)).init().train.dataset
        assert name in data[0]
        with pytest.raises(DataError, match=f"row 1, column '{name}': expected a value, got none"):
            data[1]


def test_images_of_hugging_faces_data_are_in_0_to_1(tmp_path: Path) -> None:
    for kind, scale in (("uint8", 1), ("uint16", 257)):
        images = [Image.fromarray(numpy.full((2, 2), value * scale, kind)) for value in (0, 51, 255)]
        rows = datasets.Dataset.from_dict(
            {"image": images, "label": [0, 1, 1]},
            features=datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=["a", "b"])),
        )
        rows.save_to_disk(str(tmp_path / kind))
    data = HuggingFaceConfig(path=str(tmp_path / "uint8"), columns=("image", "label")).init().train.dataset
    assert [data[index][0].unique().item() for index in range(3)] == pytest.approx([0, 0.2, 1])
    splits = HuggingFaceConfig(path=str(tmp_path / "uint8"), columns=("image", "label")).init()
    mixed = transformed(splits, [MixUpConfig()])
    assert next(iter(DataLoader(mixed.train, batch_size=2)))[1].shape == (2, 2)  # shares of both classes
    deep = HuggingFaceConfig(path=str(tmp_path / "uint16"), columns=("image", "label")).init().train.dataset
    with pytest.raises(DataError, match="row 1, column 'image': expected an image of 8 bits a channel"):
        deep[1]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("state.json", '{"_data_files": [{"filename": "../pipe"}]}', r"names a file outside of its folder, '../pipe'"),
        ("state.json", '{"_data_files": []}', "has no rows"),
        ("state.json", "[1, 2]", "expected a folder that `save_to_disk`"),
        ("state.json", "[" * 100_000, "expected a folder that `save_to_disk`"),
        ("dataset_info.json", "null", "expected a folder that `save_to_disk`"),
        ("dataset_info.json", '{"features": {"x": {"_type": "Nope"}}}', "expected a folder that `save_to_disk`"),
    ],
)
def test_damaged_data_sets_of_hugging_face(tmp_path: Path, file: str, content: str, message: str) -> None:
    datasets.Dataset.from_dict({"x": [1.0, 2.0]}).save_to_disk(str(tmp_path / "data"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "data" / file).write_text(content)
    with pytest.raises(DataError, match=message):
        HuggingFaceConfig(path=str(tmp_path / "data")).init()
