"""Files of very many small tensors open by default, whatever their format: no limit is for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import record as records
from burnlike.module import ParamId
from burnlike.record import ReadLimits, Record, open_record
from burnlike.record.formats import EXTENSIONS

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


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("what", TORCH_FILES)
def test_a_file_of_torch_with_300_000_tensors_opens_by_default(what: str, zipped: bool, tmp_path: Path) -> None:
    torch.save(TORCH_FILES[what](FEW), path := tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    opens(path, FEW, scaled(OLD_MODULES_SCALE if what == "a whole module" and not zipped else SCALE))


@pytest.mark.parametrize(
    ("extension", "count"),
    [pytest.param(it, 300_000, marks=pytest.mark.weekly) for it in BURNS_OLD]
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
