"""Directories of Burn's Learner: a training goes on from one, and writes one."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import burnlike as bl
from burnlike.errors import RecordIOError, RecordMismatchError
from burnlike.module import params
from burnlike.optim import AdamWConfig, CosineAnnealingConfig, GradientsParams, OptimizerAdaptor
from burnlike.optim.schedules.lr_scheduler import LrScheduler
from burnlike.train import TrainingState
from burnlike.train.runs.record_paths import record_at
from tests.golden.run_model import Net, Sizes

GOLDEN = Path(__file__).parents[1] / "golden" / "v0.22"
PARTS = (("model", "train_run-end"), ("optim", "train_run-optim"), ("scheduler", "lr_cosine"))


def learner_directory(folder: Path) -> Path:
    """What Burn's Learner leaves: files of epoch 3, and older ones; here of files that Burn wrote."""
    checkpoint = folder / "artifacts" / "checkpoint"
    checkpoint.mkdir(parents=True)
    for kind, name in PARTS:
        shutil.copy(GOLDEN / f"{name}.bpk", checkpoint / f"{kind}-10.bpk")
    shutil.copy(GOLDEN / "train_run-start.bpk", checkpoint / "model-9.bpk")
    return checkpoint


def training() -> tuple[Net, OptimizerAdaptor, LrScheduler]:
    values = json.loads((GOLDEN / "train_run.values.json").read_text())
    schedule = CosineAnnealingConfig(initial_lr=1.0, min_lr=0.1, num_iters=4).init()
    return Net(Sizes.of(values["model"])), AdamWConfig().init(), schedule


def state_of(parts: tuple[Net, OptimizerAdaptor, LrScheduler]) -> TrainingState:
    model, optimizer, schedule = parts
    return TrainingState(model=model, optimizer=optimizer, schedule=schedule, counters={"step": 5})


@pytest.mark.parametrize("around", [False, True])
def test_a_training_goes_on_from_the_last_epoch_of_burns_learner(around: bool, tmp_path: Path) -> None:
    directory = learner_directory(tmp_path)
    parts = training()
    model, optimizer, schedule = parts
    state = state_of(parts)
    state.load(directory.parent if around else directory)
    record = bl.record.open_record(GOLDEN / "train_run-end.bpk")
    for param in params(model):
        assert param.tensor.detach().equal(record.tensors[param.path])
        assert param.id == record.ids[param.path]
    assert (
        optimizer.into_record().values["states"]
        == bl.record.open_record(GOLDEN / "train_run-optim.bpk").values["states"]
    )
    rates = json.loads((GOLDEN / "lr_cosine.values.json").read_text())["lr_after_load"]
    assert [schedule.step() for _ in rates] == pytest.approx(rates, rel=1e-12)
    assert state.parts["counters"] == {"step": 5}


def test_a_directory_for_burns_learner_has_its_files_byte_for_byte(tmp_path: Path) -> None:
    parts = training()
    state = state_of(parts)
    state.load(learner_directory(tmp_path / "burn"))
    folder = state.save_for_burn(tmp_path / "out" / "checkpoint", 10)
    assert sorted(path.name for path in folder.iterdir()) == ["model-10.bpk", "optim-10.bpk", "scheduler-10.bpk"]
    for kind, name in PARTS:
        assert (folder / f"{kind}-10.bpk").read_bytes() == (GOLDEN / f"{name}.bpk").read_bytes(), kind
    again = training()
    state_of(again).load(folder)
    for one, other in zip(params(parts[0]), params(again[0]), strict=True):
        assert one.tensor.equal(other.tensor)


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    directory = learner_directory(tmp_path)
    shutil.copy(GOLDEN / "optim_adagrad.bpk", directory / "optim-10.bpk")
    model, optimizer, schedule = parts = training()
    before = {param.path: param.tensor.detach().clone() for param in params(model)}
    with pytest.raises(RecordMismatchError):
        state_of(parts).load(directory)
    assert all(param.tensor.equal(before[param.path]) for param in params(model))
    assert not optimizer.into_record().tensors
    assert schedule.to_record() == training()[2].to_record()


def test_states_of_torchs_layers_are_refused(tmp_path: Path) -> None:
    model, optimizer = torch.nn.Linear(2, 1), AdamWConfig().init()
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    with pytest.raises(RecordMismatchError, match="states of torch's layers; convert the model by from_torch"):
        TrainingState(model=model, optimizer=optimizer).save_for_burn(tmp_path, 1)
    assert [*tmp_path.iterdir()] == []


def test_more_than_one_model_has_no_place(tmp_path: Path) -> None:
    model, optimizer, _ = training()
    state = TrainingState(one=model, other=torch.nn.Linear(1, 1), optimizer=optimizer)
    with pytest.raises(RecordMismatchError, match="Burn's Learner has one model, got one, other"):
        state.save_for_burn(tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()


def test_the_weights_of_a_config_are_those_of_the_last_epoch(tmp_path: Path) -> None:
    directory = learner_directory(tmp_path)
    for path in (directory, directory.parent):
        assert record_at(str(path)) == str(directory / "model-10.bpk")


def test_a_directory_of_several_files_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match=r"a directory of model-10\.bpk, model-9\.bpk, .*: name one of them"):
        bl.record.open_record(learner_directory(tmp_path))


def test_it_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    model = bl.nn.LinearConfig(d_input=2, d_output=1).init()
    schedule = CosineAnnealingConfig(initial_lr=0.1, num_iters=9).init()
    optimizer = AdamWConfig().init()

    def step() -> None:
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step(schedule.step(), model, GradientsParams.from_module(model))

    state = TrainingState(model=model, optimizer=optimizer, schedule=schedule)
    step()
    state.save_for_burn(tmp_path, 1)
    step()
    expected = [it.detach().clone() for it in model.parameters()]
    state.load(tmp_path)
    step()
    assert all(map(torch.equal, expected, model.parameters()))
