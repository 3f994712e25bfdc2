"""Files and records of very many tensors: open by default, fast, and in a few megabytes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import burnlike.record
from burnlike import record as records
from burnlike.module import ParamId
from burnlike.record import ReadLimits, Record, open_record

from ..processes import HANGS_S

FEW = 6_000
SCALE = 0.02
"""Of what a file of any size may take: what opens with it would open with all of it fifty times as large."""
OLD_MODULES_SCALE = 0.1
"""A whole module before torch 1.6 has many more objects beside its tensors than bytes for them: 60,000 open."""
LAYER = {"q_proj": ("weight", "bias"), "o_proj": ("weight", "bias"), "norm": ("weight",), "scale": ("value",)}
EXTENSIONS = [".safetensors", ".mpk", ".mpk.gz", ".json", ".json.gz", ".bin", ".bin.gz", ".bpk"]


def names(count: int) -> list[str]:
    parts = [f"{part}.{name}" for part, fields in LAYER.items() for name in fields]
    return [f"decoder.layers.{index // len(parts)}.{parts[index % len(parts)]}" for index in range(count)]


def tensors(count: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return dict(zip(names(count), torch.randn(count, 2).unbind(), strict=True))


def saved(count: int, path: Path) -> Any:
    """A module's record as a file; its layout, which bincode needs."""
    values = tensors(count)
    ids = {name: ParamId.new() for name in values}
    layer = {part: dict.fromkeys(fields, "param") for part, fields in LAYER.items()}
    layout = {"decoder": {"layers": {"$vec": layer}}} if ".bin" in path.name else None
    records.save(Record(values, ids=ids, layout=layout), path)
    return layout


def of_an_optimizer(count: int) -> Record:
    state = {"momentum": {"time": "usize", "moment_1": "tensor", "moment_2": "tensor"}}
    ids = [str(ParamId.new()) for _ in range(count // 2)]
    torch.manual_seed(0)
    moments = {
        f"{it}.momentum.moment_{which}": values
        for it, pair in zip(ids, torch.randn(len(ids), 2, 2).unbind(), strict=True)
        for which, values in zip((1, 2), pair.unbind(), strict=True)
    }
    times = {f"{it}.momentum.time": 3 for it in ids}
    return Record(moments, {"states": times, "paths": {}}, layout={"$map": {"$state": state}})


TORCH_FILES: dict[str, Callable[[int], Any]] = {
    "a state dict": lambda count: {name: values.clone() for name, values in tensors(count).items()},
    "views of one storage": tensors,
    "a whole module": lambda count: torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(count // 2)),
    "an optimizer's state": lambda count: {
        "state": {i: {"step": torch.ones(()), "exp_avg": torch.ones(2), "x": 1.0} for i in range(count // 2)},
        "param_groups": [{"lr": 1e-3, "params": list(range(count // 2))}],
    },
}


def opens(path: Path, count: int, limits: ReadLimits, layout: Any = None) -> None:
    with limits:
        assert len(open_record(path, layout=layout).tensors) == count


def scaled(scale: float = SCALE) -> ReadLimits:
    usual = ReadLimits()
    return ReadLimits(seconds=usual.seconds * scale, memory_bytes=usual.memory_bytes * scale)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_file_of_300_000_tensors_opens_by_default(extension: str, tmp_path: Path) -> None:
    layout = saved(FEW, path := tmp_path / f"x{extension}")
    opens(path, FEW, scaled(), layout)


@pytest.mark.slow
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_an_optimizers_record_of_300_000_tensors_opens_by_default(extension: str, tmp_path: Path) -> None:
    record = of_an_optimizer(FEW)
    records.save(record, path := tmp_path / f"x{extension}")
    opens(path, FEW, scaled(), record.layout)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("what", TORCH_FILES)
def test_a_file_of_torch_with_300_000_tensors_opens_by_default(what: str, zipped: bool, tmp_path: Path) -> None:
    torch.save(TORCH_FILES[what](FEW), path := tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    opens(path, FEW, scaled(OLD_MODULES_SCALE if what == "a whole module" and not zipped else SCALE))


@pytest.mark.parametrize(
    ("extension", "count"),
    [pytest.param(it, 300_000, marks=pytest.mark.weekly) for it in EXTENSIONS[1:-1]]
    + [pytest.param(".bpk", 100_000, marks=pytest.mark.slow)],
)
def test_a_real_file_of_burn_opens_by_default(extension: str, count: int, tmp_path: Path) -> None:
    """Burn reads burnpack files of at most 100,000."""
    layout = saved(count, path := tmp_path / f"x{extension}")
    opens(path, count, ReadLimits(), layout)


@pytest.mark.weekly
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("what", TORCH_FILES)
def test_a_real_file_of_torch_opens_by_default(what: str, zipped: bool, tmp_path: Path) -> None:
    count = 60_000 if what == "a whole module" and not zipped else 300_000
    torch.save(TORCH_FILES[what](count), path := tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    opens(path, count, ReadLimits())


@pytest.mark.weekly
def test_the_longest_header_of_a_safetensors_file_opens_by_default(tmp_path: Path) -> None:
    count = 950_000  # readers accept headers of 100 MB; the checksum of each tensor is in it
    records.save(Record(tensors(count)), path := tmp_path / "x.safetensors")
    opens(path, count, ReadLimits())


COUNT = 10_000
ADAM = {"momentum": {"time": "usize", "moment_1": "tensor", "moment_2": "tensor"}}


def of_a_module(count: int = COUNT) -> Record:
    """Parameters and as many running statistics, all zeros, which take next to nothing in a gzipped file."""
    weights = {f"layers.{index}.weight": torch.zeros(2) for index in range(count // 2)}
    means = {f"layers.{index}.mean": torch.zeros(2) for index in range(count // 2)}
    ids = {name: ParamId(index * 7919 + 1) for index, name in enumerate(weights)}
    return Record({**weights, **means}, ids=ids, states=frozenset(means))


def of_an_optimizer_without_ranks(count: int = COUNT) -> Record:
    """States whose layout leaves the ranks out."""
    ids = [str(ParamId(index * 7919 + 1)) for index in range(count // 2)]
    moments = {f"{it}.momentum.moment_{number}": torch.zeros(2) for it in ids for number in (1, 2)}
    times = {f"{it}.momentum.time": 3 for it in ids}
    return Record(moments, {"states": times, "paths": {}}, layout={"$map": {"$state": ADAM}})


@pytest.mark.parametrize(
    "name", ["NamedMpkGzFileRecorder", "JsonGzFileRecorder", "NamedMpkFileRecorder", "BurnpackRecorder"]
)
@pytest.mark.parametrize("make", [of_a_module, of_an_optimizer_without_ranks])
def test_what_was_saved_is_read_however_small_it_is_packed(name: str, make: Callable[[], Record]) -> None:
    record = make()
    recorder = getattr(burnlike.record, name)()
    found = recorder.from_bytes(recorder.to_bytes(record))
    assert found.tensors.keys() == record.tensors.keys()
    assert dict(found.values.get("states", {})) == dict(record.values.get("states", {}))
    assert found.ids == record.ids


def test_long_lists_of_equal_values_are_read_from_gzipped_files() -> None:
    record = Record({"a": torch.zeros(1)}, {"history": [{"step": 0, "loss": 1.0, "note": None}] * 20_000})
    for recorder in (burnlike.record.NamedMpkGzFileRecorder(), burnlike.record.JsonGzFileRecorder()):
        assert recorder.from_bytes(recorder.to_bytes(record)).values == record.values


CHILD = """
import json, sys, torch
from benchmarks._memory import with_extra_bytes
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder

recorder = SafetensorsRecorder(BFloat16Precision)
recorder.save(Record({"warm": torch.ones(3_000_000)}), sys.argv[1])
tensors = {f"w{i}": torch.randn(5000, 1000) for i in range(9)} | {"transposed": torch.randn(5000, 1000).T}
model = torch.nn.ParameterDict(tensors)
_, save = with_extra_bytes(lambda: recorder.save(Record.from_module(model), sys.argv[1]))
_, load = with_extra_bytes(lambda: recorder.load(sys.argv[1]).load_into(model))
print(json.dumps({"save": save, "load": load}))
"""


def test_save_and_load_of_200_mb_take_less_than_32_mib(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "x")], capture_output=True, text=True, check=True, timeout=HANGS_S
    )
    extra = json.loads(result.stdout)
    assert (tmp_path / "x.safetensors").stat().st_size > 100_000_000
    assert extra["save"] < 32 << 20
    assert extra["load"] < 32 << 20
