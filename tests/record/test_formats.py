"""Which format a file is of: by its content where it is read, by its name where it is written."""

import gzip
from pathlib import Path

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import RecordError, RecordFormatError
from burnlike.record import BinFileRecorder, Record, SafetensorsRecorder, layout_of, open_record
from burnlike.record.bytes.source import BytesSource
from burnlike.record.formats import EXTENSIONS, detect, format_of_path

BURN_EXTENSIONS = (".mpk", ".mpk.gz", ".json", ".json.gz", ".bin", ".bin.gz", ".bpk")
GOLDEN = Path(__file__).parents[1] / "golden"


RECORDERS = {
    recorder.format.extension: recorder
    for recorder in (getattr(bl.record, name) for name in dir(bl.record) if name.endswith("Recorder"))
    if hasattr(recorder, "format") and not recorder.__name__.endswith("BytesRecorder")
}
"""Extension -> the public recorder of files."""


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_listed_format_is_complete(extension: str) -> None:
    listed = format_of_path(f"x{extension}")
    assert (listed.extension, listed.compressed) == (extension, extension.endswith(".gz"))
    assert extension in RECORDERS, "no public recorder in burnlike/record/__init__.pyi has this format"
    recorder = RECORDERS[extension]()
    assert recorder.format is listed
    layer = nn.Linear(2, 2)
    written = recorder.to_bytes(Record.from_module(layer))
    assert detect(BytesSource(written)) is listed
    layout = None if listed.has_names else layout_of(layer)
    assert torch.equal(recorder.from_bytes(written, layout).tensors["weight"], layer.weight)
    documented = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    assert f"`{extension}`" in documented
    assert f"`{RECORDERS[extension].__name__}`" in documented


@pytest.mark.parametrize("extension", [*BURN_EXTENSIONS, ".safetensors"])
def test_files_are_known_by_their_content(extension: str) -> None:
    folder = "v0.22" if extension in (".bpk", ".safetensors") else "v0.21"
    name = "linear" if folder == "v0.22" else "linear-full"
    data = (GOLDEN / folder / f"{name}{extension}").read_bytes()
    assert detect(BytesSource(data)).extension == extension


@pytest.mark.parametrize("precision", ["half", "double"])
def test_bincode_of_every_precision_is_known(precision: str) -> None:
    data = (GOLDEN / "v0.21" / f"linear-{precision}.bin").read_bytes()
    assert detect(BytesSource(data)).extension == ".bin"


def test_json_may_begin_with_blanks(tmp_path: Path) -> None:
    text = (GOLDEN / "v0.21" / "linear-full.json").read_bytes()
    (tmp_path / "x").write_bytes(b"\n  " + text)
    found, expected = open_record(tmp_path / "x"), open_record(GOLDEN / "v0.21" / "linear-full.json")
    assert torch.equal(found.tensors["weight"], expected.tensors["weight"])


@pytest.mark.parametrize("data", [b"", b"x", b"garbage, not a record", b"\x1f\x8b", gzip.compress(b"garbage", mtime=0)])
def test_what_is_no_record_is_told(data: bytes) -> None:
    with pytest.raises(RecordFormatError):
        detect(BytesSource(data))


def test_gzip_around_a_format_that_is_not_meant_to_be_is_told() -> None:
    data = SafetensorsRecorder().to_bytes(Record({"x": torch.ones(1)}))
    with pytest.raises(RecordFormatError, match="got a gzipped one: unpack it by gunzip"):
        detect(BytesSource(gzip.compress(data)))


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_names_say_the_format_to_write(extension: str) -> None:
    assert format_of_path(f"a.b{extension}").extension == extension


def test_other_names_are_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(RecordError, match=r"ends in one of \.safetensors, \.mpk"):
        format_of_path("model.onnx")


OF_TORCH = [
    *("w.pt", "w.PT", "w.pth", "w.ckpt", "w.pkl", "model_best.pth.tar", "w.pt2"),
    *("pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "adapter_model.bin"),
    *("diffusion_pytorch_model.fp16.bin", "pytorch_model.bin.index.json", "model.safetensors.index.json"),
]
"""Names that readers take for pickles of torch.save, or for the index of a set of files."""


@pytest.mark.parametrize("name", OF_TORCH)
def test_names_that_stand_for_other_files_are_refused_by_every_save(name: str, tmp_path: Path) -> None:
    layer = bl.nn.LinearConfig(d_input=2, d_output=2).init()
    saves = [
        lambda path: bl.record.save(layer, path),
        lambda path: bl.record.save(layer, str(path), bl.HalfPrecision),
        lambda path: bl.record.save_async(layer, path).wait(),
        lambda path: layer.save(path),
        lambda path: SafetensorsRecorder().save(layer.into_record(), path),
        lambda path: BinFileRecorder().save(layer.into_record(), path),
    ]
    for save in saves:
        with pytest.raises(RecordError, match=r"are read by torch\.load|is the name of the index"):
            save(tmp_path / name)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["x.foo", "model.v1", "x.dcp", "x.mpkk"])
def test_a_save_refuses_the_extensions_that_convert_refuses(name: str, tmp_path: Path) -> None:
    layer = bl.nn.LinearConfig(d_input=2, d_output=2).init()
    for save in (lambda path: bl.record.save(layer, path), lambda path: bl.record.save_async(layer, path), layer.save):
        with pytest.raises(RecordError, match=r"ends in one of \.safetensors, \.mpk"):
            save(tmp_path / name)
    assert not [*tmp_path.iterdir()]
    assert bl.record.save(layer, tmp_path / "x") == str(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "name", ["model.bin", "optimizer.bin", "pt", "model.v1.mpk", "my_pytorch_models.bin", "x.pt.mpk"]
)
def test_names_that_only_look_alike_are_taken(name: str, tmp_path: Path) -> None:
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    path = bl.record.save(layer, tmp_path / name)
    bl.record.load(other, path)
    assert torch.equal(layer.weight, other.weight)


def test_a_file_of_torch_is_told_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    path = tmp_path / "pytorch_model.bin"
    torch.save(layer.state_dict(), path)
    bl.record.load(other, path)
    assert torch.equal(layer.weight, other.weight)
    for recorder in (BinFileRecorder(), SafetensorsRecorder()):
        with pytest.raises(
            RecordFormatError, match=f"expected a file of {recorder.format.name}, got one of pt; .*open_record"
        ):
            recorder.load(path, layout_of(layer))
