"""TrainConfig: the rules across its parts, and the shipped files."""

import subprocess
import sys
from pathlib import Path

import pytest

from burnlike.config.shipped import shipped_jobs
from burnlike.errors import ConfigError
from burnlike.train import TrainConfig
from tests.processes import HANGS_S

from .samples import load_config, write_config

CONFIGS = [*shipped_jobs().values()]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_load_and_round_trip(path: Path) -> None:
    config = TrainConfig.load(path)
    assert TrainConfig.from_yaml(config.to_yaml()) == config


def test_the_shipped_model_has_one_to_three_million_parameters() -> None:
    config = TrainConfig.load(CONFIGS[0].with_name("char_gpt.yaml"))
    assert 1_000_000 <= config.model.init("meta").num_params() <= 3_000_000


def test_reading_a_config_loads_no_torch() -> None:
    code = (
        "import sys; from burnlike.train import TrainConfig\n"
        "for path in sys.argv[1:]: TrainConfig.load(path)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, *map(str, CONFIGS)], check=True, timeout=HANGS_S)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("device=mps", "device: expected auto, cpu, cuda or cuda:N, such as cuda:0; got 'mps'"),
        ("device=cuda:x", "device: expected auto"),
        ("model.vocab_size=100", "model.vocab_size: expected 256, the vocabulary of the data, got 100"),
        ("model.max_sequence_length=8", "model.max_sequence_length: expected at least 16, data.context_length, got 8"),
        ("lr_scheduler.warmup_steps=60", "lr_scheduler.warmup_steps: expected less than the 60 steps of the run"),
        ("training.batch_size=0", "training.batch_size: expected an int >= 1, got 0"),
        ("output.precision=int8", "output.precision: expected"),
        ("seed=-1", "seed: expected an int"),
        ("optimizer={type: Lbfgs}", "optimizer: expected an optimizer that takes one gradient a step, got Lbfgs"),
    ],
)
def test_rules_are_told_with_their_place(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, override)
    assert message in str(caught.value)


def test_a_rule_across_parts_has_the_line_of_the_field(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    path.write_text(path.read_text().replace("vocab_size: 256", "vocab_size: 255"))
    with pytest.raises(ConfigError, match=rf"{path}:5:\d+: model.vocab_size: expected 256"):
        TrainConfig.load(path)


def test_a_schedule_with_its_own_length_may_be_longer_than_the_run(tmp_path: Path) -> None:
    config = load_config(tmp_path, "lr_scheduler.warmup_steps=60", "lr_scheduler.num_iters=100")
    assert config.lr_scheduler.init(num_iters=60).step() > 0
