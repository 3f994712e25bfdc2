"""One way to save and load whatever has a state: modules, optimizers, schedulers, torch's own, whole trainings."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike import optim
from burnlike.errors import ArgumentError, RecordError, RecordMismatchError
from burnlike.record import NamedMpkFileRecorder, Record, Recorder, SafetensorsRecorder, open_record

from .interface_cases import CASES, Case, S, model_of


class InMemory(Recorder):
    """A user's own recorder."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        self.kept[os.fspath(path)] = SafetensorsRecorder().to_bytes(record)
        return os.fspath(path)

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        return SafetensorsRecorder().from_bytes(self.kept[os.fspath(path)])


def by_functions(source: Any, target: Any, path: Path, **options: Any) -> None:
    bl.record.load(target, bl.record.save(source, path), **options)


def by_an_own_recorder(source: Any, target: Any, path: Path, **options: Any) -> None:
    recorder = InMemory()
    bl.record.save(source, "somewhere", recorder=recorder)
    bl.record.load(target, "somewhere", recorder=recorder, **options)


def by_parts(source: Any, target: Any, path: Path, **options: Any) -> None:
    bl.record.save({"rest": 3, "parts": [source]}, path)
    open_record(path.with_suffix(".safetensors")).parts[0].load_into(target, **options)


WITH_METHODS = [
    *("module", "adaptor", "lbfgs", "scheduler", "module scheduler"),
    *("TorchOptimizer", "TorchLbfgs", "training"),
]
WAYS = [by_functions, by_an_own_recorder, by_parts]


def pair(name: str) -> tuple[Case, Case]:
    """One that has gone on for a while, and another one beside which it is to be saved; both train equal weights."""
    source, target = CASES[name](1), CASES[name](2)
    source.go()
    target.go()
    if "model" in vars(source) and name != "training":
        Record.from_module(source.model).load_into(target.model)
    return source, target


def check_alike(source: Case, *targets: Case) -> None:
    """What goes on from equal states does the same."""
    found = []
    for case in (source, *targets):
        torch.manual_seed(3)
        found.append([case.go() for _ in range(2)])
    assert all(it == found[0] for it in found)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_everything_goes_on_from_its_record(name: str, way: Callable[..., None], tmp_path: Path) -> None:
    source, target = pair(name)
    way(source.it, target.it, tmp_path / "saved", **target.options)
    check_alike(source, target)


@pytest.mark.parametrize("name", WITH_METHODS)
@pytest.mark.parametrize("extension", ["", ".safetensors", ".mpk", ".json.gz", ".bpk"])
def test_what_is_of_burnlike_has_methods_for_it(name: str, extension: str, tmp_path: Path) -> None:
    if (name, extension[:2]) in {("TorchLbfgs", ".m"), ("TorchLbfgs", ".j")}:
        return  # its list of tensors in a state has no place there, as the error says
    source, target = pair(name)
    _, again = pair(name)
    if "model" in vars(source) and name != "training":
        Record.from_module(source.model).load_into(again.model)
    path = source.it.save(tmp_path / f"saved{extension}")
    target.it.load(str(path), **target.options)
    again.it.load_record(source.it.into_record(), **again.options)
    check_alike(source, target, again)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"model": nn.Linear(2, 2)}, r"to load into, got dict; open the record by .*record\.model\.load_into\(model\)"),
        (3, "to load into, got int"),
        (nn.Linear, r"got the class Linear; burnlike\.record\.open_record\(path\)\.into\(Linear\)"),
        (
            S.StepLR(torch.optim.SGD([nn.Parameter(torch.ones(1))]), 2),
            "expected the record of a StepLR, got .*of something else",
        ),
        (optim.AdamWConfig().init(), "expected an optimizer's record"),
    ],
)
def test_what_a_record_is_not_of_is_refused(target: Any, message: str, tmp_path: Path) -> None:
    path = bl.record.save(nn.Linear(2, 2), tmp_path / "x")
    with pytest.raises(RecordError, match=message):
        bl.record.load(target, path)


def test_a_state_that_is_refused_leaves_the_object_as_it_was(tmp_path: Path) -> None:
    class Picky:
        def __init__(self) -> None:
            self.state = {"a": torch.ones(2), "b": 1}

        def state_dict(self) -> dict[str, Any]:
            return self.state

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.state = {"a": state["a"]}
            self.state["b"] = state["b"] + 1

    source, target = Picky(), Picky()
    source.state["b"] = "text"
    with pytest.raises(RecordMismatchError, match=r"'Picky' refused its state .TypeError"):
        bl.record.load(target, bl.record.save(source, tmp_path / "x"))
    assert target.state["a"].tolist() == [1, 1]


def test_recorders_read_what_they_wrote_and_exclude_what_is_of_open_record(tmp_path: Path) -> None:
    layer, other = bl.nn.LinearConfig(d_input=2, d_output=2).init(), nn.Linear(2, 2)
    recorder = NamedMpkFileRecorder()
    layer.save(tmp_path / "odd.name", recorder)
    layer.save(tmp_path / "half", precision=bl.HalfPrecision)
    assert open_record(tmp_path / "half").weight.dtype == torch.float16
    bl.record.load(other, tmp_path / "odd.name", recorder=recorder)
    assert torch.equal(layer.weight, other.weight)
    layer.load(tmp_path / "odd.name", recorder=recorder)
    with pytest.raises(ArgumentError, match="expected it or a recorder, got both"):
        bl.record.load(other, tmp_path / "odd.name", recorder=recorder, top_level_key="model")


def test_a_training_is_a_directory_or_one_file(tmp_path: Path) -> None:
    case = CASES["training"](1)
    directory = case.it.save(tmp_path / "whole")
    single = case.it.save(tmp_path / "whole.safetensors")
    assert directory.is_dir()
    assert single.is_file()
    assert bl.record.save(case.it, tmp_path / "other") == f"{tmp_path / 'other'}.safetensors"
    case.go()
    for path in (directory, single, tmp_path / "other"):
        again = CASES["training"](2)
        bl.record.load(again.it, path)
        assert again.counters == {"step": 0}
        assert torch.equal(again.model[0].weight, model_of(1)[0].weight)
    with pytest.raises(RecordError, match=r"are read by torch\.load"):
        case.it.save(tmp_path / "whole.pt")
    record = open_record(single)
    bl.record.load(nn.Linear(3, 4), bl.record.save(record.model[0], tmp_path / "part"))


def test_a_record_in_place_of_a_path_is_told_where_to_go() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(ArgumentError, match=r"got a record; load it by record\.load_into\(target\)"):
        bl.record.load(layer, Record.from_module(layer))  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(RecordError, match=r"a tensor alone needs a name: write \{'name': tensor\}"):
        bl.record.save(torch.ones(2), "x")
