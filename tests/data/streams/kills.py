"""Kills a run over a mixed, packed stream at random moments and resumes it with other workers: it ends in like bits.

python -m tests.data.streams.kills 50
"""

import os
import random
import signal
import sys
import tempfile
from pathlib import Path

import yaml

from ...fork_server import ForkServer
from ...kills import kill_and_resume
from ...train.samples import files_of, metrics_of
from .samples import write_lines, write_parquet

YAML = """\
seed: 3
device: cpu
threads: 1
data:
  type: Stream
  sources: [{path: LINES, weight: 0.7}, {path: PARQUET, weight: 0.3}]
  context_length: 32
  packing: true
  validation_items: 8
model: {type: DecoderLm, vocab_size: 256, max_sequence_length: 32, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 24,
  dropout: 0.1}
optimizer: {type: AdamW, weight_decay: 0.1}
lr_scheduler: {type: CosineAnnealing, initial_lr: 1e-2, warmup_steps: 5}
training:
  epochs: 3
  steps_per_epoch: 20
  batch_size: 4
  accumulation_steps: 2
  validation_steps: 2
  checkpoint_every_steps: 3
  log_every_steps: 4
  ema: {decay: 0.9}
"""


def write_config(place: Path, **options: object) -> Path:
    """Shards, and the config of a training on them."""
    values = yaml.safe_load(YAML)
    lines, parquet = write_lines(place / "lines"), write_parquet(place / "parquet", group=7)
    for source, path in zip(values["data"]["sources"], (lines, parquet), strict=True):
        source["path"] = str(path)
    values["data"] |= options
    (place / "stream.yaml").write_text(yaml.safe_dump(values))
    return place / "stream.yaml"


class OneProcess:
    """Of one run, with another number of workers each time."""

    def __init__(self, server: ForkServer, config: Path, output: Path) -> None:
        self._server, self._config, self._output = server, config, output
        self._workers, self._process = random.Random(3), 0

    def start(self, run: Path) -> None:
        begun = (run / "config.yaml").exists()
        place = ["--resume", str(run)] if begun else [str(self._config), "--run-dir", str(run)]
        workers = f"training.num_workers={self._workers.choice((0, 1, 2))}"
        self._process = self._server.start(["train", *place, "--set", workers], self._output)

    def is_running(self) -> bool:
        return self._server.is_running

    def kill(self) -> None:
        os.kill(self._process, signal.SIGKILL)

    def wait(self) -> bool:
        status = self._server.wait()
        assert status in (0, -signal.SIGKILL), self._output.read_text()
        return status == 0


def kill_streams(server: ForkServer, kills: int, place: Path) -> tuple[int, int]:
    """Kill so many times; returns how many runs were needed, and at how many different checkpoints they went on.

    Each run ends with the bits of one that was left alone.
    """
    trains = OneProcess(server, write_config(place), place / "output")
    trains.start(place / "whole")
    assert trains.wait()
    return kill_and_resume(trains, kills, place, lambda run: assert_same_but_for_workers(run, place / "whole"))


def assert_same_but_for_workers(run: Path, other: Path) -> None:
    files, others = (
        {name: it for name, it in files_of(path).items() if name != "config.yaml"} for path in (run, other)
    )
    assert sorted(files) == sorted(others)
    assert [name for name in files if files[name] != others[name]] == []
    assert metrics_of(run) == metrics_of(other)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ForkServer() as server:
        count = int(sys.argv[1])
        runs, places = kill_streams(server, count, Path(folder))
        print(f"{count} kills in {runs} runs, which went on from {places} checkpoints: all ended in the same bits")
