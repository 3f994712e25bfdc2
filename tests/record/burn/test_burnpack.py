"""Burnpack files: those that Burn wrote, the bytes of one by hand, and forms that other writers use."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from burnlike.errors import DTypeError
from burnlike.module import ParamId
from burnlike.record import BurnpackRecorder, FullPrecision, HalfPrecision, Record, SafetensorsRecorder, open_record

from .packs import descriptor, made, read

GOLDENS = Path(__file__).parents[2] / "golden" / "v0.22"
MODULES = sorted(
    path.name
    for path in (*GOLDENS.glob("*.bpk"), *GOLDENS.glob("*.safetensors"))
    if not path.name.startswith(("optim_", "lr_", "train_run"))
)
BY_HAND = bytes.fromhex(
    "4e52554201004300 0000a16774656e73 6f7273a166776569 676874a465647479"
    "7065634633326573 68617065820202 6c 646174615f6f6666 7365747382001068"
    "706172616d5f6964 1a0001e240"
)
"""One tensor `weight` of float32 [2, 2] with the id 123456; zeros fill it up to 256 bytes, then come its values."""


@pytest.mark.parametrize("path", sorted(GOLDENS.glob("*.bpk")), ids=lambda path: path.name)
def test_files_of_burn_are_written_again_byte_for_byte(path: Path) -> None:
    assert BurnpackRecorder().to_bytes(open_record(path)) == path.read_bytes()


@pytest.mark.parametrize("path", sorted(GOLDENS.glob("*.safetensors")), ids=lambda path: path.name)
def test_safetensors_files_of_burn_are_written_again_byte_for_byte(path: Path) -> None:
    assert SafetensorsRecorder().to_bytes(open_record(path)) == path.read_bytes()


@pytest.mark.parametrize("file", MODULES)
def test_files_of_burn_hold_the_values_that_burn_tells(file: str) -> None:
    name, _, extension = file.partition(".")
    record = open_record(GOLDENS / file)
    told = {it["path"]: it for it in json.loads((GOLDENS / f"{name}.values.json").read_text())["params"]}
    assert set(record.tensors) == told.keys()
    for path, param in told.items():
        tensor = record.tensors[path].T if name == "linear_col" and path == "weight" else record.tensors[path]
        assert list(tensor.shape) == param["shape"]
        assert tensor.dtype == {"float": torch.float32, "int": torch.int32, "bool": torch.bool}[param["kind"]]
        np.testing.assert_array_equal(tensor.flatten().numpy(), np.array(param["values"], tensor.numpy().dtype))
        if extension == "bpk":
            assert record.ids[path] == ParamId(int(param["id_u64"])) == ParamId.parse(param["id"])


def test_a_file_is_the_bytes_that_the_format_says() -> None:
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    record = Record({"weight": weight}, ids={"weight": ParamId(123456)})
    expected = BY_HAND + bytes(256 - len(BY_HAND)) + struct.pack("<4f", 1, 2, 3, 4)
    assert BurnpackRecorder().to_bytes(record) == expected
    found = read(expected)
    assert torch.equal(found.tensors["weight"], weight)
    assert found.ids == {"weight": ParamId(123456)}


def test_names_are_sorted_and_data_keeps_the_order_of_the_record() -> None:
    record = Record({"z": torch.ones(1), "a": torch.zeros(2)})
    data = BurnpackRecorder().to_bytes(record)
    assert data == made(
        {"tensors": {"a": descriptor(256, 264), "z": descriptor(0, 4)}}, struct.pack("<f", 1) + bytes(252 + 8)
    )
    assert list(read(data).tensors) == ["z", "a"]


def test_files_without_padding_are_read() -> None:
    metadata = {"tensors": {"a": descriptor(0, 8), "b": descriptor(8, 12, param_id=7)}}
    found = read(made(metadata, struct.pack("<3f", 1, 2, 3), aligned=False))
    assert found.tensors["a"].tolist() == [1, 2]
    assert found.tensors["b"].tolist() == [3]
    assert found.ids == {"b": ParamId(7)}


def test_version_0_is_read() -> None:
    assert read(made({"tensors": {"a": descriptor(0, 4)}}, bytes(4), version=0)).tensors["a"].tolist() == [0]


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8"])
def test_every_element_type_of_burn_comes_back(dtype: str) -> None:
    widths = {"8": torch.uint8, "16": torch.int16, "32": torch.int32, "64": torch.int64}
    bits = torch.arange(6, dtype=widths[dtype.lstrip("BFIU")])
    raw = bits.numpy().tobytes()
    source = made({"tensors": {"a": {"dtype": dtype, "shape": [2, 3], "data_offsets": [0, len(raw)]}}}, raw)
    found = BurnpackRecorder().from_bytes(source)
    assert torch.equal(found.tensors["a"].view(bits.dtype).flatten(), bits)
    assert BurnpackRecorder().to_bytes(found) == source


@pytest.mark.parametrize(("store", "form"), [("Native", "<4B"), ("U8", "<4B"), ("U32", "<4I")])
def test_bools_are_read_from_every_store(store: str, form: str) -> None:
    raw = struct.pack(form, 1, 0, 0, 1)
    tensor = {"dtype": {"Bool": store}, "shape": [4], "data_offsets": [0, len(raw)]}
    assert read(made({"tensors": {"a": tensor}}, raw)).tensors["a"].tolist() == [True, False, False, True]


def test_values_are_converted_on_the_way_in_and_out(tmp_path: Path) -> None:
    values = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    path = BurnpackRecorder(HalfPrecision).save(Record({"a": values}), tmp_path / "model")
    assert path == str(tmp_path / "model.bpk")
    found = open_record(path)
    assert torch.equal(found.tensors["a"], values.half())
    again = BurnpackRecorder(FullPrecision).to_bytes(found)
    assert torch.equal(read(again).tensors["a"], values.half().float())


def test_texts_of_other_programs_stay() -> None:
    data = made({"tensors": {}, "metadata": {"format": "burnpack", "producer": "burn", "version": "0.21.0"}})
    found = read(data)
    assert found.metadata == {"format": "burnpack", "producer": "burn", "version": "0.21.0"}
    assert BurnpackRecorder().to_bytes(found) == data


def test_unknown_keys_and_forms_that_other_writers_use_are_read() -> None:
    tensor = descriptor(0, 4, param_id=None, checksum=[1, {"x": None}])
    assert list(read(made({"later": 1, "tensors": {"a": tensor}, "metadata": None, "scalars": None}, bytes(4))).tensors)
    indefinite = bytes.fromhex("bf677465 6e736f7273bfffff")
    assert dict(read(made(indefinite)).tensors) == {}


def test_types_that_burn_lacks_are_refused() -> None:
    with pytest.raises(DTypeError, match="F8_E4M3"):
        BurnpackRecorder().to_bytes(Record({"a": torch.zeros(2, dtype=torch.float8_e4m3fn)}))
