"""Strategies are a role: named or as a mapping in YAML, built in or a user's own."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.config import StrategyConfig
from burnlike.errors import ConfigError
from burnlike.train import DistributedConfig, Fsdp2Config, Job, RunDir, SingleProcess, make_parallel
from tests.train.samples import load_config
from tests.train.test_learner import quiet


class Counting(SingleProcess):
    """Counts the batches, by its own field at a time."""

    def __init__(self, config: "CountingConfig", device: torch.device) -> None:
        self.config, self.device = config, device
        self.count = 0

    def train_step(self, step: Any, model: torch.nn.Module, batch: Any) -> Any:
        self.count += self.config.by
        return super().train_step(step, model, batch)


class CountingConfig(StrategyConfig[Counting], tag="CountingForThisTest", builds=Counting):
    is_single = True
    by: int


def test_a_strategy_of_a_users_own_trains_a_job(tmp_path: Path) -> None:
    config = load_config(tmp_path, "distributed.strategy={type: CountingForThisTest, by: 3}", "training.epochs=1")
    job = Job(config)
    assert isinstance(job.parallel, Counting)
    assert job.parallel.device == torch.device("cpu")
    with closing(RunDir.create(tmp_path / "run")) as run:
        job.run(run, quiet())
    assert job.parallel.count == 3 * 20
    assert type(config).load(tmp_path / "run" / "config.yaml") == config


def test_a_name_stands_for_a_mapping_with_this_type() -> None:
    named, mapping = (DistributedConfig.from_yaml(f"strategy: {it}") for it in ("fsdp2", "{type: fsdp2}"))
    assert named.chosen == mapping.chosen == Fsdp2Config()
    assert named.name == "fsdp2"
    assert not named.is_single
    assert type(make_parallel(DistributedConfig(strategy="none"), torch.device("cpu"))) is SingleProcess


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("Ddp", "strategy: unknown type 'Ddp'; did you mean 'ddp'"),
        ("{type: pipelined}", "strategy.type: unknown type 'pipelined'; a StrategyConfig is due: one of "),
        ("CountingForThisTest", r"strategy: expected \{type: CountingForThisTest, by: \.\.\.\}"),
    ],
)
def test_a_strategy_that_there_is_not_is_no_other_one(strategy: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"<string>:1:\d+: {message}"):
        DistributedConfig.from_yaml(f"strategy: {strategy}")
