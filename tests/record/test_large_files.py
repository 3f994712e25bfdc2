"""Files of very many tensors open by default and in a few megabytes; devices are filled through two buffers."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnlike.record
from burnlike import record as records
from burnlike.module import ParamId
from burnlike.record import BFloat16Precision, ReadLimits, Record, SafetensorsRecorder, load, open_record, save
from burnlike.record.bytes import values
from burnlike.record.formats import EXTENSIONS
from burnlike.record.loading import filling
from burnlike.record.loading.filling import fill_device

from ..processes import HANGS_S

FEW = 6_000
SCALE = 0.02
"""Of what a file of any size may take: what opens with it would open with all of it fifty times as large."""
OLD_MODULES_SCALE = 0.1
"""A whole module before torch 1.6 has many more objects beside its tensors than bytes for them: 60,000 open."""
LAYER = {"q_proj": ("weight", "bias"), "o_proj": ("weight", "bias"), "norm": ("weight",), "scale": ("value",)}
BURNS_OLD = [it for it in EXTENSIONS if it not in (".safetensors", ".bpk")]


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


@pytest.mark.slow
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("what", TORCH_FILES)
def test_a_file_of_torch_with_300_000_tensors_opens_by_default(what: str, zipped: bool, tmp_path: Path) -> None:
    torch.save(TORCH_FILES[what](FEW), path := tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    opens(path, FEW, scaled(OLD_MODULES_SCALE if what == "a whole module" and not zipped else SCALE))


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("extension", "count"),
    [*((it, 300_000) for it in BURNS_OLD), (".bpk", 100_000)],
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


@pytest.mark.slow
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


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_save_and_load_of_200_mb_take_less_than_32_mib(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "x")], capture_output=True, text=True, check=True, timeout=HANGS_S
    )
    extra = json.loads(result.stdout)
    assert (tmp_path / "x.safetensors").stat().st_size > 100_000_000
    assert extra["save"] < 32 << 20
    assert extra["load"] < 32 << 20


class FakeStream:
    """Remembers what was done, and in which order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.buffers: list[Tensor] = []
        self.marks = 0
        self.done = 0

    def buffer(self, count: int) -> Tensor:
        self.buffers.append(torch.empty(count, dtype=torch.uint8))
        return self.buffers[-1]

    @contextmanager
    def queue(self) -> Iterator[None]:
        self.log.append("copy")
        yield

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def wait(self, mark: int) -> None:
        self.log.append(f"wait {mark}")
        self.done = max(self.done, mark)

    def finish(self) -> None:
        self.log.append("finish")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "BLOCK_BYTES", 64)


@pytest.mark.usefixtures("small_blocks")
def test_a_buffer_is_used_again_only_when_its_copy_is_done(tmp_path: Path) -> None:
    source = {"a": torch.randn(70), "b": torch.randn(8, 5), "flag": torch.tensor([True, False])}
    path = SafetensorsRecorder(BFloat16Precision).save(Record(source), tmp_path / "x")
    tensors: Any = SafetensorsRecorder().load(path).tensors
    targets = {"a": torch.zeros(70), "b": torch.zeros(5, 8).T, "flag": torch.zeros(2, dtype=torch.bool)}
    stream = FakeStream()
    fill_device([(tensors.values_of(name), targets[name]) for name in source], torch.device("cpu"), stream)
    for name, target in targets.items():
        expected = source[name] if name == "flag" else source[name].to(torch.bfloat16).float()
        assert torch.equal(target, expected), name
    # 70 values are 3 pieces of 32, 40 are 2, and the flags are 1.
    order = "copy, copy, wait 1, copy, wait 2, copy, wait 3, copy, wait 4, copy, wait 5, wait 6, finish"
    assert ", ".join(stream.log) == order
    assert len(stream.buffers) == 2


def test_all_copies_of_a_device_go_by_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.device] = []

    class Stream:
        def __init__(self, device: torch.device) -> None:
            made.append(device)

        def wait_stream(self, other: object) -> None: ...

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    first, second = torch.device("cuda", 6), torch.device("cuda", 7)
    for device in (first, second, first):
        values.CudaSideStream(device)
    assert made == [first, second]
    values._stream_of.cache_clear()


@pytest.mark.cuda
def test_a_module_on_a_gpu_loads_what_one_on_the_cpu_does(tmp_path: Path) -> None:
    source = nn.Sequential(nn.Linear(3000, 1000), nn.BatchNorm1d(1000))
    path = save(source, tmp_path / "x", BFloat16Precision)
    module = nn.Sequential(nn.Linear(3000, 1000), nn.BatchNorm1d(1000)).cuda()
    load(module, path)
    load(source, path)
    for name, tensor in source.state_dict().items():
        assert torch.equal(module.state_dict()[name].cpu(), tensor), name
