"""Which parameter each state of an optimizer's record goes to."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import RecordMismatchError
from burnlike.module import fresh_ids, params
from burnlike.optim import AdamWConfig, OptimizerAdaptor
from burnlike.record import LoadReport, Record, open_record
from tests.optim.steps import assert_same, train


def trained() -> tuple[nn.Module, OptimizerAdaptor, Record]:
    model = nn.ModuleDict({"first": nn.Linear(3, 2), "last": nn.Linear(2, 2)})
    optimizer = AdamWConfig().init()
    train(model, optimizer)
    return model, optimizer, copy.deepcopy(optimizer.to_record())


def moments(optimizer: OptimizerAdaptor, module: nn.Module) -> dict[str, Tensor]:
    """First moments by path."""
    tensors = optimizer.to_record().tensors
    return {it.path: tensors[f"{it.id}.momentum.moment_1"] for it in params(module) if f"{it.id}.momentum.time"}


def test_without_the_models_file_states_are_found_by_path_and_the_report_says_so() -> None:
    model, optimizer, record = trained()
    twin = fresh_ids(copy.deepcopy(model))
    fresh = AdamWConfig().init().load_record(record, twin)
    assert_same(moments(fresh, twin), moments(optimizer, model))
    report = fresh.load_report
    assert report is not None
    assert report.by_path == ["first.weight", "first.bias", "last.weight", "last.bias"]
    assert not report.by_id
    assert "4 of them by path: their ids are not in the module" in str(report)
    paths = fresh.to_record().values["paths"]
    assert paths == {str(param.id): param.path for param in params(twin)}, "the next record has the module's ids"


def test_ids_go_before_paths() -> None:
    model, optimizer, record = trained()
    moved = nn.ModuleDict({"last": model["first"], "more": model["last"]})
    fresh = AdamWConfig().init().load_record(record, moved)
    before = moments(optimizer, model)
    assert_same(
        moments(fresh, moved),
        {name.replace("last", "more").replace("first", "last"): it for name, it in before.items()},
    )
    assert fresh.load_report is not None
    assert len(fresh.load_report.by_id) == 4


def test_states_follow_the_remap_of_the_models_load() -> None:
    model, optimizer, record = trained()
    renamed = nn.ModuleDict({"head": nn.Linear(3, 2), "tail": nn.Linear(2, 2)})
    with pytest.raises(RecordMismatchError, match=r"belongs to another model: it has states of 'first\.weight'"):
        AdamWConfig().init().load_record(record, renamed)
    report = Record.from_module(model).load_into(renamed, remap=[("^first", "head"), ("^last", "tail")])
    fresh_ids(renamed)  # as if the model's file had been one without ids
    by_name = AdamWConfig().init().load_record(record, renamed, report=LoadReport(renamed=report.renamed))
    assert_same(
        list(moments(by_name, renamed).values()) and moments(by_name, renamed), renamed_moments(optimizer, model)
    )
    assert by_name.load_report is not None
    assert by_name.load_report.remapped["first.weight"] == "head.weight"
    assert "remapped: first.weight -> head.weight" in str(by_name.load_report)


def renamed_moments(optimizer: OptimizerAdaptor, model: nn.Module) -> dict[str, Tensor]:
    names = {"first": "head", "last": "tail"}
    return {names[path.split(".")[0]] + "." + path.split(".")[1]: it for path, it in moments(optimizer, model).items()}


def test_states_follow_the_ids_that_the_models_load_gave() -> None:
    model, optimizer, record = trained()
    renamed = nn.ModuleDict({"head": nn.Linear(3, 2), "tail": nn.Linear(2, 2)})
    old, new = params(model), params(renamed)
    report = LoadReport(ids={a.id: b.id for a, b in zip(old, new, strict=True)})
    fresh = AdamWConfig().init().load_record(record, renamed, report=report)
    assert_same(moments(fresh, renamed), renamed_moments(optimizer, model))
    without_module = AdamWConfig().init().load_record(record, report=report)
    assert_same(moments(without_module, renamed), renamed_moments(optimizer, model))


def test_a_whole_restart_from_files_follows_the_model(tmp_path: Path) -> None:
    model, optimizer, record = trained()
    bl.record.save(model, tmp_path / "model")
    bl.record.SafetensorsRecorder().save(record, tmp_path / "optimizer")
    renamed = nn.ModuleDict({"head": nn.Linear(3, 2), "tail": nn.Linear(2, 2)})
    report = bl.record.load(renamed, tmp_path / "model.safetensors", remap=[("^first", "head"), ("^last", "tail")])
    fresh = AdamWConfig().init().load_record(open_record(tmp_path / "optimizer.safetensors"), renamed, report=report)
    train(renamed, fresh)
    train(model, optimizer)
    for ours, theirs in zip(renamed.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_states_of_no_parameter_are_refused_or_dropped() -> None:
    model, optimizer, record = trained()
    part = nn.ModuleDict({"first": model["first"], "lost": nn.Linear(1, 1)})
    fresh = AdamWConfig().init()
    train(part, fresh)
    before = copy.deepcopy(fresh.to_record())
    with pytest.raises(
        RecordMismatchError, match=r"does not fit the model: it has states of 'last\.weight' \("
    ) as caught:
        fresh.load_record(record, part)
    assert len(caught.value.report.orphaned) == 2
    assert_same(fresh.to_record().tensors, before.tensors)
    fresh.load_record(record, part, prune_orphans=True)
    assert fresh.load_report is not None
    assert len(fresh.load_report.orphaned) == 2
    assert fresh.load_report.missing == ["lost.weight", "lost.bias"]
    assert len(fresh.to_record().tensors) == 4
    assert len(optimizer.to_record().tensors) == 8


def test_states_of_another_shape_are_refused_with_their_names() -> None:
    _, _, record = trained()
    other = nn.ModuleDict({"first": nn.Linear(3, 5), "last": nn.Linear(2, 2)})
    with pytest.raises(
        RecordMismatchError, match=r"first\.weight, momentum\.moment_1: expected \[5, 3\], got \[2, 3\]"
    ):
        AdamWConfig().init().load_record(record, other)


def test_a_state_of_one_value_is_not_spread_over_a_parameter_that_has_grown() -> None:
    model, optimizer = nn.Linear(3, 1), AdamWConfig().init()
    train(model, optimizer)
    with pytest.raises(RecordMismatchError, match=r"bias, momentum\.moment_1: expected \[2\], got \[1\]"):
        AdamWConfig().init().load_record(optimizer.to_record(), nn.Linear(3, 2))


def test_an_optimizer_and_its_twin_share_no_memory() -> None:
    model, optimizer, _ = trained()
    fresh = AdamWConfig().init().load_record(optimizer.to_record(), model)
    kept = copy.deepcopy(fresh.to_record())
    train(model, optimizer)
    assert_same(fresh.to_record().tensors, kept.tensors)
