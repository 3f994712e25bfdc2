"""Layouts of files in bincode are also found by comparing them with the same record in a format with names."""

import json
from pathlib import Path

import pytest

from burnlike.record import BinFileRecorder
from tests.golden.layouts import infer, layout_for

FOLDER = Path(__file__).parent / "v0.21"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*-full.bin")), ids=lambda path: path.name)
def test_layouts_are_inferred_from_files_with_names(path: Path) -> None:
    data = path.read_bytes()
    layout = infer(json.loads(path.with_suffix(".json").read_text())["item"], data)
    record = BinFileRecorder().from_bytes(data, layout)
    values = json.loads((FOLDER / f"{path.name.removesuffix('-full.bin')}.values.json").read_text())
    known = BinFileRecorder().from_bytes(data, layout_for(values))
    assert list(record.tensors) == list(known.tensors)
    assert record.ids == known.ids
    assert BinFileRecorder().to_bytes(record) == data


def test_a_tree_of_another_record_gives_no_layout() -> None:
    tree = json.loads((FOLDER / "linear-full.json").read_text())["item"]
    assert infer(tree, (FOLDER / "two-full.bin").read_bytes()) is None


def test_models_of_other_folders_are_known_by_their_config() -> None:
    fields = [["act", {"type": "Gelu"}], ["out", {"type": "RmsNorm", "d_model": 3}]]
    assert layout_for({"name": "new", "config": {"type": "Own", "fields": fields}}) == {
        "act": "constant",
        "out": {"gamma": "param", "epsilon": "constant"},
    }
    assert layout_for({"name": "new", "config": {"type": "Unknown"}}) is None
    assert layout_for({"name": "new"}) is None


def test_long_lists_are_inferred() -> None:
    tree = json.loads((FOLDER / "linear-full.json").read_text())["item"]
    data = (FOLDER / "linear-full.bin").read_bytes()
    begin = data.index(b"FullPrecisionSettings", data.index(b"0.21.0")) + len("FullPrecisionSettings")
    layout = infer([tree] * 3000, data[:begin] + b"\xfb" + (3000).to_bytes(2, "little") + data[begin:] * 3000)
    assert layout == {"$vec": [infer(tree, data)] * 3000}
