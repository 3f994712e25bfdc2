"""Checkpoints of earlier versions go on as they would have then."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from burnlike.errors import RecordFormatError, RecordMismatchError
from burnlike.record import Record, SafetensorsRecorder
from burnlike.train import Checkpointer
from burnlike.train.state.old_states import upgraded
from tests.train.test_learner import learner, loader, quiet, training

DATA = Path(__file__).parent / "data"


def test_a_checkpoint_of_the_first_version_goes_on_to_what_that_version_ended_with(tmp_path: Path) -> None:
    """`end.safetensors` was written by the version that wrote the checkpoint, after the two steps that follow."""
    shutil.copytree(DATA / "checkpoint-1" / "step-00000004", tmp_path / "step-00000004")
    of = learner(nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.3), nn.Linear(8, 1)))
    torch.manual_seed(99)
    train_loader = loader()
    checkpoint = Checkpointer(tmp_path, keep=1).latest()
    assert checkpoint is not None
    of.load_checkpoint(checkpoint, train_loader)
    assert (of.step, train_loader.epoch, train_loader.position) == (4, 1, 1)
    result = of.fit(train_loader, loader(), training(log_every_steps=3), renderer=quiet())
    assert result.steps == 6
    assert result.train_loss == pytest.approx(0.09836035718520482, rel=1e-6)
    assert result.best_valid_loss == pytest.approx(0.010080678388476372, rel=1e-6)
    expected = SafetensorsRecorder().load(DATA / "checkpoint-1" / "end.safetensors")
    found = Record.from_module(of.model)
    assert found.ids == expected.ids
    for name, tensor in expected.tensors.items():
        # Dropout draws the same numbers on every machine; sums may differ in the last bits.
        torch.testing.assert_close(found.tensors[name], tensor, rtol=1e-5, atol=1e-7)


def test_a_later_version_and_other_records_are_refused() -> None:
    with pytest.raises(RecordFormatError, match=r"expected version 2 or before .*, got 3; a newer burnlike wrote it"):
        upgraded(Record(values={"version": 3}))
    with pytest.raises(RecordMismatchError, match="is no record of a training: it has no 'random'"):
        upgraded(Record(values={"step": 3}))
    with pytest.raises(RecordMismatchError, match="is no record of a training: it has no parts"):
        upgraded(Record(values={"version": 2}))
