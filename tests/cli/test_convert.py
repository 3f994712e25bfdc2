"""`burnlike convert`, also of PyTorch's weights with `--model`, and `burnlike merge`: what is kept and changed."""

import json
import math
import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import peft
import pytest
import safetensors.torch
import torch
import transformers
from torch import Tensor, nn

from burnlike import Module, nn as layers
from burnlike.cli.commands import convert
from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.errors import (
    BurnlikeError,
    ConfigError,
    PrecisionError,
    RecordError,
    RecordFormatError,
    RecordIOError,
    RecordMismatchError,
)
from burnlike.interop import from_torch, record_from_torch, to_torch
from burnlike.module import ParamId, params
from burnlike.record import Record, SafetensorsRecorder, init_from, load, open_record, save
from burnlike.train import Job, RunDir, TrainConfig, load_run

from ..models.by_path.directories import bert, llama, saved, tokens
from .commands import run

SAMPLE = Path(__file__).parents[1] / "record" / "data" / "sample.safetensors"
GOLDEN = Path(__file__).parents[1] / "golden"
NAMED = [".safetensors", ".mpk", ".mpk.gz", ".json", ".json.gz", ".bpk"]
"""Formats that carry names."""


def everything() -> Record:
    return Record(
        {
            "layers.0.weight": torch.tensor([[1.5, -2.25], [math.inf, 3.0]]),
            "layers.1.weight": torch.tensor([0.5, -0.0], dtype=torch.float16),
            "steps": torch.tensor(7),
            "mask": torch.tensor([True, False]),
            "empty": torch.zeros(0, 3),
        },
        {"rate": math.inf, "epoch": 3, "name": "é", "nothing": None, "list": [1, 2.5, {"$a": False}]},
        {"layers.0.weight": ParamId(123456), "layers.1.weight": ParamId(2**64 - 1)},
        {"head.weight": "layers.0.weight"},
        metadata={"author": "me"},
    )


def assert_same(found: Record, expected: Record) -> None:
    assert set(found.tensors) == set(expected.tensors)
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert torch.equal(found.tensors[name], tensor)
    assert (found.values, dict(found.ids)) == (expected.values, dict(expected.ids))
    assert dict(found.aliases) == dict(expected.aliases)
    for key, text in expected.metadata.items():
        assert found.metadata[key] == text


@pytest.mark.parametrize("extension", NAMED)
def test_there_and_back_loses_nothing(tmp_path: Path, extension: str) -> None:
    record = everything()
    SafetensorsRecorder().save(record, tmp_path / "a.safetensors")
    assert run(convert, tmp_path / "a.safetensors", tmp_path / f"b{extension}") == 0
    assert_same(open_record(tmp_path / f"b{extension}"), record)
    run(convert, tmp_path / f"b{extension}", tmp_path / "c.safetensors")
    assert_same(open_record(tmp_path / "c.safetensors"), record)


@pytest.mark.parametrize("name", ["linear-full", "optim_adamw-full", "kinds-full", "tree-full"])
@pytest.mark.parametrize("between", NAMED[:-1])
def test_burns_files_come_back_byte_for_byte(tmp_path: Path, name: str, between: str) -> None:
    original = GOLDEN / "v0.21" / f"{name}.mpk"
    run(convert, original, tmp_path / f"x{between}")
    run(convert, tmp_path / f"x{between}", tmp_path / "back.mpk")
    assert (tmp_path / "back.mpk").read_bytes() == original.read_bytes()


def test_full_file_becomes_burns_half_file(tmp_path: Path) -> None:
    run(convert, GOLDEN / "v0.21" / "linear-full.mpk", tmp_path / "x.safetensors", "--precision", "half")
    run(convert, tmp_path / "x.safetensors", tmp_path / "x.mpk")
    found, expected = (open_record(path) for path in (tmp_path / "x.mpk", GOLDEN / "v0.21" / "linear-half.mpk"))
    assert found.metadata["settings"] == expected.metadata["settings"] == "HalfPrecisionSettings"
    for name in expected.tensors:
        assert torch.equal(found.tensors[name], expected.tensors[name])


def test_precision_int_and_keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = SafetensorsRecorder().save(
        Record({"a.weight": torch.ones(3), "norm.gamma": torch.ones(2), "steps": torch.tensor(7)}), tmp_path / "a"
    )
    run(convert, path, tmp_path / "b.safetensors", "--precision", "bf16", "--int", "i32", "--keep", "norm")
    found = {name: tensor.dtype for name, tensor in open_record(tmp_path / "b.safetensors").tensors.items()}
    assert found == {"a.weight": torch.bfloat16, "norm.gamma": torch.float32, "steps": torch.int32}
    text = capsys.readouterr().out
    assert "1 stored as BF16 instead of F32" in text
    assert "1 stored as I32 instead of I64" in text
    assert "3 tensors, 18 bytes" in text


def test_values_too_large_are_an_error_unless_allowed(tmp_path: Path) -> None:
    path = SafetensorsRecorder().save(Record({"x": torch.tensor([1e6])}), tmp_path / "a")
    with pytest.raises(PrecisionError, match="too large for float16"):
        run(convert, path, tmp_path / "b.mpk", "--precision", "f16")
    assert not (tmp_path / "b.mpk").exists()
    run(convert, path, tmp_path / "b.mpk", "--precision", "f16", "--allow-overflow")
    assert open_record(tmp_path / "b.mpk").tensors["x"].tolist() == [math.inf]


def test_another_file_stays_where_the_new_one_can_not_be_written(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder().save(Record({"x": torch.tensor([1e6])}), tmp_path / "a"))
    other = Path(SafetensorsRecorder().save(Record({"y": torch.ones(1)}), tmp_path / "b"))
    before = other.read_bytes()
    with pytest.raises(PrecisionError):
        run(convert, path, other, "--precision", "f16", "--force")
    assert other.read_bytes() == before
    assert {*tmp_path.iterdir()} == {path, other}


def test_rename_takes_ids_and_aliases_along(tmp_path: Path) -> None:
    SafetensorsRecorder().save(everything(), tmp_path / "a")
    run(
        convert,
        *(tmp_path / "a.safetensors", tmp_path / "b.safetensors"),
        *("--rename", r"^layers\.(\d+)=h.\1", "--rename", "^h\\.0=first"),
    )
    found = open_record(tmp_path / "b.safetensors")
    assert {"first.weight", "h.1.weight"} <= set(found.tensors)
    assert found.ids == {"first.weight": ParamId(123456), "h.1.weight": ParamId(2**64 - 1)}
    assert found.aliases == {"head.weight": "first.weight"}


def test_rename_changes_the_paths_of_an_optimizers_record(tmp_path: Path) -> None:
    text = str(ParamId(123456))
    record = Record({f"{text}.moment_1": torch.ones(2)}, {"states": {f"{text}.time": 3}, "paths": {text: "a.weight"}})
    path = SafetensorsRecorder().save(record, tmp_path / "a")
    run(convert, path, tmp_path / "b.safetensors", "--rename", "^a=b", "--ids")
    found = open_record(tmp_path / "b.safetensors")
    assert list(found.tensors) == [f"{text}.moment_1"]
    assert found.values == {"states": {f"{text}.time": 3}, "paths": {text: "b.weight"}}


def test_names_that_become_one_are_an_error(tmp_path: Path) -> None:
    SafetensorsRecorder().save(everything(), tmp_path / "a")
    with pytest.raises(RecordError, match=r"both 'layers.0.weight' and 'layers.1.weight' would become 'w'"):
        run(convert, tmp_path / "a.safetensors", tmp_path / "b.mpk", "--rename", r"layers\.\d+\.weight=w")
    assert not (tmp_path / "b.mpk").exists()


def test_ids_are_drawn_for_those_without(tmp_path: Path) -> None:
    safetensors.torch.save_file({"weight": torch.ones(2), "bias": torch.ones(1)}, tmp_path / "a.safetensors")
    run(convert, tmp_path / "a.safetensors", tmp_path / "b.mpk")
    assert not open_record(tmp_path / "b.mpk").ids
    run(convert, tmp_path / "b.mpk", tmp_path / "c.mpk", "--ids")
    ids = dict(open_record(tmp_path / "c.mpk").ids)
    assert len(set(ids.values())) == 2
    run(convert, tmp_path / "c.mpk", tmp_path / "d.mpk", "--ids")
    assert dict(open_record(tmp_path / "d.mpk").ids) == ids


def test_shards_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = everything()
    path = SafetensorsRecorder().save(record, tmp_path / "a")
    run(convert, path, tmp_path / "new" / "set", "--shard-size", "16")
    assert "model.safetensors.index.json" in capsys.readouterr().out
    assert len(list((tmp_path / "new" / "set").glob("model-*.safetensors"))) > 1
    run(convert, tmp_path / "new" / "set", tmp_path / "b.mpk")
    assert_same(open_record(tmp_path / "b.mpk"), record)
    run(convert, tmp_path / "b.mpk", tmp_path / "new" / "set", "--shard-size", "1GB", "--force")
    assert [it.name for it in (tmp_path / "new" / "set").iterdir()] == ["model.safetensors"]
    assert_same(open_record(tmp_path / "new" / "set"), record)


def test_files_of_torch_save(tmp_path: Path) -> None:
    torch.save({"model": {"a.weight": torch.ones(2, 3)}, "epoch": 3}, tmp_path / "a.pt")
    run(convert, tmp_path / "a.pt", tmp_path / "b.safetensors")
    found = open_record(tmp_path / "b.safetensors")
    assert (list(found.tensors), found.values) == (["model.a.weight"], {"epoch": 3})
    run(convert, tmp_path / "a.pt", tmp_path / "b.mpk", "--top-level-key", "model", "--ids")
    found = open_record(tmp_path / "b.mpk")
    assert (list(found.tensors), found.values, len(found.ids)) == (["a.weight"], {}, 1)


LINEAR = "type: Linear\nd_input: 3\nd_output: 2\n"


def test_bincode_is_written_and_read_by_a_layout(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(LINEAR)
    (tmp_path / "layout.yaml").write_text("weight: param\nbias: {$option: param}\n")
    golden = GOLDEN / "v0.21"
    for name in ("model", "layout"):
        options, place = (f"--{name}", tmp_path / f"{name}.yaml"), tmp_path / name
        place.mkdir()
        run(convert, golden / "linear-full.mpk", place / "a.bin", *options)
        run(convert, place / "a.bin", place / "b.safetensors", *options)
        run(convert, place / "b.safetensors", place / "c.mpk")
        assert (place / "c.mpk").read_bytes() == (golden / "linear-full.mpk").read_bytes()
        run(convert, place / "b.safetensors", place / "d.bin")  # which keeps the layout
        run(convert, place / "b.safetensors", place / "e.mpk", "--rename", "^=old.")
        run(convert, place / "e.mpk", place / "e.bin", "--rename", r"^old\.=", *options)
        for written in ("a.bin", "d.bin", "e.bin"):
            assert (place / written).read_bytes() == (golden / "linear-full.bin").read_bytes()


def test_bincode_without_a_layout_is_told(tmp_path: Path) -> None:
    for source, target in (("linear-full.bin", "a.mpk"), ("linear-full.mpk", "a.bin")):
        with pytest.raises(RecordError, match="give --layout FILE, or --model"):
            run(convert, GOLDEN / "v0.21" / source, tmp_path / target)


def test_format_says_what_the_name_does_not(tmp_path: Path) -> None:
    run(convert, SAMPLE, tmp_path / "x.burn", "--format", "mpk")
    assert open_record(tmp_path / "x.burn").metadata["format"].startswith("burn_core::record::file::NamedMpk")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x.mpkk",), r"ends in one of \.safetensors, .*or --format"),
        (("x",), "ends in one of"),
        (("x.mpk", "--shard-size", "1MB"), r"a directory of safetensors files, got .*x\.mpk"),
        (("x.mpk", "--precision", "bf61"), "did you mean 'bf16'"),
        (("x.mpk", "--int", "i33"), r"--int i33: expected one of .*did you mean"),
        (("x.mpk", "--format", "mpkk"), "did you mean 'mpk'"),
        (("x.mpk", "--precision", "f16", "--keep", "("), r"keep: expected a regular expression"),
        (("x.mpk", "--keep", "norm"), "give one of those"),
        (("x.mpk", "--precision", "f16", "--keep", "nrom"), "--keep nrom: no tensor has such a name; .* has "),
        (("x.mpk", "--rename", "abc"), "expected REGEX=NEW"),
        (("x.mpk", "--rename", "(=x"), "expected a regular expression"),
        (("x.mpk", "--rename", r"e=\2"), "can't replace"),
        (("x", "--shard-size", "many"), "expected a size such as 2GB"),
        (("x", "--shard-size", "0"), "expected a size such as 2GB"),
        (("x", "--shard-size", "2GB", "--format", "mpk"), "leave one out"),
        (("x.bin", "--layout", "none.json"), "the layout can't be read"),
        (("x.bin", "--model", "none.yaml"), "the config can't be read"),
        ((".",), "is a directory"),
    ],
)
def test_wrong_options_are_told_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BurnlikeError, match=message) as caught:
        run(convert, SAMPLE, *arguments)
    assert isinstance(caught.value, RecordError | ConfigError)
    assert not list(tmp_path.iterdir())


def test_input_that_is_no_record_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match="no such file"):
        run(convert, tmp_path / "none.mpk", tmp_path / "x.mpk")
    (tmp_path / "bad.mpk").write_bytes(b"not a record at all")
    with pytest.raises(RecordFormatError, match="expected a record"):
        run(convert, tmp_path / "bad.mpk", tmp_path / "x.mpk")


@pytest.mark.parametrize(
    ("text", "message"),
    [("weight: parm", "did you mean 'param'"), ("{", "as JSON or YAML"), ("a: {$vec: 3}", "expected a text or a map")],
)
def test_wrong_layouts_are_told_with_their_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "layout.yaml").write_text(text)
    with pytest.raises(RecordError, match=message) as caught:
        run(convert, SAMPLE, tmp_path / "x.bin", "--layout", tmp_path / "layout.yaml")
    assert str(caught.value).startswith(f"{tmp_path}/layout.yaml")


@pytest.mark.slow
def test_200_megabytes_are_converted_in_a_few(tmp_path: Path) -> None:
    count = 50_000_000
    header = json.dumps({"x": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(tmp_path / "a.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * count)
    code = (
        "import sys; import torch; import burnlike.record.recorder; from burnlike.cli.main import main\n"
        "from benchmarks._memory import with_extra_bytes\n"
        "status, extra = with_extra_bytes(lambda: main(sys.argv[1:])); print(extra); sys.exit(status)"
    )
    arguments = ["convert", tmp_path / "a.safetensors", tmp_path / "b.mpk", "--precision", "bf16"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < 40 << 20
    assert open_record(tmp_path / "b.mpk").tensors["x"].shape == (count,)


class TwoLinearsConfig(ModuleConfig, tag="TwoLinearsOfATest"):
    """A model of two layers and a number of its own."""

    width: int = 3

    def init(self, device: Any = None) -> "TwoLinears":
        return TwoLinears(self, device)


class TwoLinears(Module):
    def __init__(self, config: TwoLinearsConfig, device: Any) -> None:
        super().__init__()
        self.first = layers.LinearConfig(d_input=2, d_output=config.width).init(device)
        self.rest = [layers.LinearConfig(d_input=config.width, d_output=1, bias=False).init(device)]
        self.scale = nn.Parameter(torch.ones(1, device=device))

    def forward(self, x: Tensor) -> Tensor:
        return self.rest[0](self.first(x)) * self.scale


class TorchModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = nn.ModuleList([nn.Linear(3, 1, bias=False)])
        self.scale = nn.Parameter(torch.full((1,), 2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.rest[0](self.first(x)) * self.scale


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "model.yaml"
    path.write_text("type: TwoLinearsOfATest\n")
    return path


@pytest.mark.parametrize("source", ["x.pt", "x.safetensors"])
@pytest.mark.parametrize("target", ["x.mpk", "x.bpk", "x.bin", "y.safetensors"])
def test_weights_of_torch_become_those_of_burn(source: str, target: str, config: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = TorchModel()
    if source.endswith(".pt"):
        torch.save(model.state_dict(), tmp_path / source)
    else:
        safetensors.torch.save_file(model.state_dict(), tmp_path / source)
    assert run(convert, tmp_path / source, tmp_path / target, "--model", config) == 0
    loaded = init_from(TwoLinearsConfig(), tmp_path / target, "cpu")
    x = torch.randn(5, 2)
    torch.testing.assert_close(loaded(x), model(x))
    assert torch.equal(loaded.first.weight, model.first.weight.mT)
    twin = from_torch(model)
    for name, tensor in twin.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_ids_of_the_source_are_kept(config: Path, tmp_path: Path) -> None:
    model = TorchModel()
    ids = {param.path: param.id for param in params(model)}
    save(model, tmp_path / "x.safetensors")
    run(convert, tmp_path / "x.safetensors", tmp_path / "x.mpk", "--model", config, "--from", "torch")
    assert dict(open_record(tmp_path / "x.mpk").ids) == ids


def test_names_of_other_programs_are_renamed_before(config: Path, tmp_path: Path) -> None:
    state = {f"net.{name}": tensor for name, tensor in TorchModel().state_dict().items()}
    torch.save({"model": state, "epoch": 3}, tmp_path / "x.pt")
    options = ("--top-level-key", "model", "--rename", "^net\\.=", "--precision", "f16")
    run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--model", config, *options)
    assert open_record(tmp_path / "x.mpk").tensors["first.weight"].dtype == torch.float16


def test_all_that_does_not_fit_is_in_one_error(config: Path, tmp_path: Path) -> None:
    state = dict(TorchModel().state_dict())
    state["first.weight"] = torch.zeros(4, 2)
    state["frist.bias"] = state.pop("first.bias")
    state["more"] = torch.zeros(2)
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(RecordMismatchError, match=r"does not fit TwoLinears, whose tensors have these") as caught:
        run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--model", config)
    text = str(caught.value)
    for line in (
        "missing in the record: first.bias; did you mean 'frist.bias'?",
        "unexpected: more",
        "mismatched: first.weight: expected float32 [3, 2], got float32 [4, 2]",
    ):
        assert line in text
    assert not (tmp_path / "x.mpk").exists()


def test_names_that_may_be_of_either_are_asked_for(tmp_path: Path) -> None:
    layer = nn.Linear(2, 2)
    torch.save(layer.state_dict(), tmp_path / "x.pt")
    (tmp_path / "model.yaml").write_text("type: Linear\nd_input: 2\nd_output: 2\n")
    arguments = (tmp_path / "x.pt", tmp_path / "x.mpk", "--model", tmp_path / "model.yaml")
    with pytest.raises(RecordError, match="say by --from torch or --from burnlike"):
        run(convert, *arguments)
    for names, expected in (("torch", layer.weight.mT), ("burnlike", layer.weight)):
        run(convert, *arguments, "--from", names, "--ids", "--force")
        assert torch.equal(open_record(tmp_path / "x.mpk").tensors["weight"], expected)
    with pytest.raises(RecordError, match="--from torch needs --model"):
        run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--from", "torch")


def test_a_record_in_burns_names_stays_as_it_is(config: Path, tmp_path: Path) -> None:
    model = TwoLinearsConfig().init()
    safetensors.torch.save_file(
        {name: it.contiguous() for name, it in model.state_dict().items()}, tmp_path / "x.safetensors"
    )
    run(convert, tmp_path / "x.safetensors", tmp_path / "x.bin", "--model", config, "--ids")
    loaded = init_from(TwoLinearsConfig(), tmp_path / "x.bin", "cpu")
    assert torch.equal(loaded.first.weight, model.first.weight)


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("type: Lstm\nd_input: 2\nd_hidden: 2\nbias: true\n", nn.LSTM(2, 2, batch_first=True)),
        ("type: BiGru\nd_input: 3\nd_hidden: 2\nbias: false\n", nn.GRU(3, 2, bias=False, bidirectional=True)),
        ("type: BatchNorm\nnum_features: 3\n", nn.BatchNorm1d(3)),
        ("type: MultiHeadAttention\nd_model: 4\nn_heads: 2\n", nn.MultiheadAttention(4, 2, batch_first=True)),
        ("type: Conv2d\nchannels: [2, 3]\nkernel_size: 3\n", nn.Conv2d(2, 3, 3)),
    ],
    ids=["Lstm", "BiGru", "BatchNorm", "MultiHeadAttention", "Conv2d"],
)
def test_gates_norms_and_projections(text: str, layer: nn.Module, tmp_path: Path) -> None:
    torch.save(layer.state_dict(), tmp_path / "x.pt")
    (tmp_path / "model.yaml").write_text(text)
    run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--model", tmp_path / "model.yaml")
    found = open_record(tmp_path / "x.mpk").tensors
    layer_of_burn = ModuleConfig.from_yaml(text).init()
    record_from_torch(layer_of_burn, layer.state_dict()).load_into(layer_of_burn)
    assert found.keys() == layer_of_burn.state_dict().keys()
    for name, tensor in to_torch(layer_of_burn).state_dict().items():
        assert torch.equal(tensor, layer.state_dict()[name])
    for name, tensor in layer_of_burn.state_dict().items():
        assert torch.equal(tensor, found[name])


def test_the_way_back_to_torchs_names(config: Path, tmp_path: Path) -> None:
    model = TorchModel()
    torch.save(model.state_dict(), tmp_path / "x.pt")
    run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", "--model", config)
    run(convert, tmp_path / "x.mpk", tmp_path / "back.safetensors", "--model", config, "--to", "torch")
    state = safetensors.torch.load_file(tmp_path / "back.safetensors")
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "torhc"), "--from torhc: expected one of burnlike, torch.*; did you mean 'torch'"),
        (("--to", "nowhere"), "--to nowhere: expected one of burnlike, torch"),
        (("--to", "torch"), "--to torch needs --model"),
    ],
)
def test_names_that_there_are_not(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=message):
        run(convert, tmp_path / "x.pt", tmp_path / "x.mpk", *options)


OWN = """
data: {type: Digits}
model:
  type: LoRA
  of: {type: Sequential, layers: [{type: Flatten}, {type: Linear, d_input: 64, d_output: 10}]}
  rank: 2
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, steps_per_epoch: 2, validation_steps: 1, batch_size: 8}
device: cpu
threads: 1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an own model with adapters, a directory of a Llama, and peft's files for it."""
    folder = tmp_path_factory.mktemp("merge")
    job = Job(TrainConfig.from_yaml(OWN))
    with closing(RunDir.create(folder / "own")) as run:
        job.run(run)
    llama(folder / "llama")
    _adapter(folder / "llama", folder / "adapter", "CausalLM", targets=["q_proj", "down_proj"])
    return folder


def _adapter(base: Path, out: Path, head: str, *, targets: list[str], **options: Any) -> Any:
    """Let peft write adapters that matter; gives peft's model."""
    auto = getattr(transformers, f"AutoModelFor{head}")
    torch.manual_seed(1)
    model: Any = peft.get_peft_model(auto.from_pretrained(base), peft.LoraConfig(target_modules=targets, **options))
    for name, tensor in model.named_parameters():
        if ".lora_" in name:
            torch.nn.init.normal_(tensor.data, std=0.3)
    model.save_pretrained(out)
    return model.eval()


def _run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(shlex.split(command))
    said, error = capsys.readouterr()
    return status, said, error


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize(
    ("head", "model_class", "targets", "options"),
    [
        (
            "CausalLM",
            transformers.LlamaForCausalLM,
            ["q_proj", "down_proj"],
            {"task_type": "CAUSAL_LM", "use_dora": True},
        ),
        ("CausalLM", transformers.GPT2LMHeadModel, ["c_attn"], {"fan_in_fan_out": True}),
        (
            "SequenceClassification",
            transformers.BertForSequenceClassification,
            ["query"],
            {"task_type": "SEQ_CLS", "modules_to_save": ["classifier"]},
        ),
    ],
    ids=["llama", "gpt2", "bert"],
)
def test_adapters_of_peft_become_a_directory(
    head: str, model_class: Any, targets: list[str], options: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path / "base", model_class)
    model = _adapter(tmp_path / "base", tmp_path / "adapter", head, targets=targets, **options)
    status, said, error = _run(f"merge {tmp_path}/adapter --out {tmp_path}/out", capsys)
    assert status == 0, error
    assert "adapters of" in said
    merged = getattr(transformers, f"AutoModelFor{head}").from_pretrained(tmp_path / "out")
    with torch.no_grad():
        torch.testing.assert_close(merged(tokens()).logits, model(tokens()).logits)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.slow
def test_a_run_of_an_own_model_becomes_a_record_and_its_config(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(f"merge {place}/own --out {tmp_path}/out", capsys)[0] == 0
    model = ModuleConfig.load(tmp_path / "out/model.yaml").init()
    load(model, tmp_path / "out/model.safetensors")
    x = torch.randn(3, 1, 8, 8)
    torch.testing.assert_close(model(x), load_run(place / "own").model(x))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("merge {place}/none --out {out}", "there is no run at"),
        ("merge {place}/own --base {place}/llama --out {out}", "--base is for adapters of peft"),
        ("merge {place}/adapter --best --out {out}", "--best is for runs"),
        ("merge {place}/adapter --base {place}/gone --out {out}", "gone, which is none; name it by --base"),
        ("merge {place}/adapter --base {place}/other --out {out}", "are not for the model in"),
        ("merge {place}/own --out {place}/llama", "is there already"),
        ("merge {place}/damaged --out {out}", "adapter_model.safetensors"),
    ],
)
def test_what_can_not_be_merged_is_one_error(
    command: str, message: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "other" in command:
        bert(place / "other")
    if "damaged" in command:
        shutil.copytree(place / "adapter", place / "damaged")
        (place / "damaged/adapter_model.safetensors").write_bytes(b"no")
    status, _, error = _run(command.format(place=place, out=tmp_path / "out"), capsys)
    assert status == 2
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
