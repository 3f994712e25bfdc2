"""A model that is too large is refused before anything of it is allocated."""

import resource

import pytest
import torch
from torch import nn

from burnlike.config import ModuleConfig
from burnlike.errors import BurnlikeError, ConfigError, DeviceError
from burnlike.train import Job
from burnlike.train.job.device import check_fits, is_out_of_memory
from tests.train.samples import load_config

CPU = torch.device("cpu")
LARGE = {
    "d_model=1073741824": "take .* GB of cpu, where 8.0 GB are available; lower the model's sizes. Nothing was alloc",
    "d_ff=2147483647": "take .* GB of cpu",
    "vocab_size=2147483647": "expected 256",
    "max_sequence_length=2147483647": "take .* GB of cpu",
}


@pytest.mark.parametrize("override", LARGE)
def test_a_model_that_does_not_fit_is_refused_before_it_is_made(tmp_path, monkeypatch, override: str) -> None:
    monkeypatch.setattr("burnlike.train.job.device.available_memory", lambda: 8_000_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BurnlikeError, match=LARGE[override]):
        Job(load_config(tmp_path, f"model.{override}"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


class Wide(ModuleConfig):
    def init(self, device=None) -> nn.Module:
        return nn.ParameterList([torch.empty(2**31 - 1, 2**31 - 1, 64, device=device)])


class NeedsValues(ModuleConfig):
    def init(self, device=None) -> nn.Module:
        return nn.Linear(int(torch.ones(1, device=device).item()), 1)


def test_tensors_beyond_64_bits_are_a_mistake_of_the_config() -> None:
    with pytest.raises(ConfigError, match="Wide: larger than any memory"):
        check_fits(Wide(), CPU)


def test_a_model_that_can_not_be_built_without_values_is_left_to_be_built() -> None:
    check_fits(NeedsValues(), CPU)


def test_full_memory_is_told_from_other_errors() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**45)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes"))


def test_a_batch_that_does_not_fit_is_one_message(tmp_path) -> None:
    from burnlike.train import RunDir

    job = Job(load_config(tmp_path, "training.steps_per_epoch=1", "lr_scheduler.warmup_steps=0"))

    def loss(model, batch):
        torch.empty(2**45)

    job.task.train_step = loss
    run = RunDir.create(tmp_path / "run")
    with pytest.raises(DeviceError, match=r"the memory of cpu is full: lower training.batch_size"):
        job.run(run)
    run.close()
