"""A run that takes a second: its config, its text, and what to compare of two run directories."""

import json
from pathlib import Path
from typing import Any

from burnlike.train import TrainConfig

TEXT = "".join(
    f"def function_{i % 7}(a, b={i}):\n    return a + {i * 31 % 97}  # {'xyz' * (i % 3)}\n" for i in range(300)
)

YAML = """\
seed: 3
device: cpu
threads: 1
data: {{type: Text, path: {corpus}, context_length: 16}}
model: {{type: DecoderLm, vocab_size: 256, max_sequence_length: 16, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 24,
  dropout: 0.1}}
optimizer: {{type: AdamW, weight_decay: 0.1}}
lr_scheduler: {{type: CosineAnnealing, initial_lr: 1e-2, warmup_steps: 5}}
training:
  epochs: 3
  steps_per_epoch: 20
  batch_size: 4
  validation_steps: 2
  checkpoint_every_steps: 3
  log_every_steps: 4
task: {{type: LanguageModel, prompt: "def ", sample_length: 8}}
"""
STEPS = 60


def write_config(directory: Path, text: str = TEXT) -> Path:
    """Write the text and the YAML; returns the YAML's path."""
    corpus = directory / "corpus.txt"
    corpus.write_text(text)
    path = directory / "small.yaml"
    path.write_text(YAML.format(corpus=json.dumps(str(corpus))))
    return path


def load_config(directory: Path, *overrides: str) -> TrainConfig:
    """The small config with overrides as `--set` takes them."""
    return TrainConfig.load(write_config(directory), overrides)


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics without what the clock decides."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if key != "time" and not key.endswith("_per_s")} for line in lines
    ]


_OF_THE_CLOCK = ("metrics.jsonl", "ranks.jsonl", "run.lock", "environment.json", "log.txt")


def files_of(run: Path) -> dict[str, bytes]:
    """Every file of a run that the clock and the process leave alone, by name."""
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.name not in _OF_THE_CLOCK and path.parent.name != "logs"
    }


def assert_same_run(run: Path, other: Path) -> None:
    """Both directories hold the same files, to the last bit, and the same metrics."""
    files, others = files_of(run), files_of(other)
    assert sorted(files) == sorted(others)
    assert [name for name in files if files[name] != others[name]] == []
    assert metrics_of(run) == metrics_of(other)
