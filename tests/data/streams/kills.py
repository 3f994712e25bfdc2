"""Kills a run over a mixed, packed stream at random moments and resumes it with other workers: it ends in like bits.

python -m tests.data.streams.kills 50
"""

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import yaml

from ...fork_server import ForkServer
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

_EVERY: int = yaml.safe_load(YAML)["training"]["checkpoint_every_steps"]


def write_config(place: Path, **options: object) -> Path:
    """Shards, and the config of a training on them."""
    values = yaml.safe_load(YAML)
    lines, parquet = write_lines(place / "lines"), write_parquet(place / "parquet", group=7)
    for source, path in zip(values["data"]["sources"], (lines, parquet), strict=True):
        source["path"] = str(path)
    values["data"] |= options
    (place / "stream.yaml").write_text(yaml.safe_dump(values))
    return place / "stream.yaml"


def kill_and_resume(server: ForkServer, kills: int, place: Path, seed: int = 3) -> tuple[int, int]:
    """Kill so many times; returns how many runs were needed, and at how many different checkpoints they went on.

    Each run ends with the bits of one that was left alone.
    """
    config, output = write_config(place), place / "output"
    started = time.monotonic()
    assert server.run(["train", str(config), "--run-dir", str(place / "whole")], output) == 0, output.read_text()
    longest, moments = 0.1 * (time.monotonic() - started), random.Random(seed)
    done = runs = 0
    went_on: set[int] = set()
    while done < kills:
        run = place / f"run-{runs}"
        checkpoints = run / "checkpoints"
        is_over = False
        while not is_over:
            workers = f"training.num_workers={moments.choice((0, 1, 2))}"
            begun = (run / "config.yaml").exists()
            place_of = ["--resume", str(run)] if begun else [str(config), "--run-dir", str(run)]
            before = _last_step(checkpoints)
            went_on.add(before)
            process = server.start(["train", *place_of, "--set", workers], output)
            if done < kills:
                step = before + _EVERY * (1, 0, 3, 6)[done % 4]  # a step, not a time: a busy machine gets there, too
                while server.is_running and _last_step(checkpoints) < step:
                    time.sleep(0.001)
                time.sleep(moments.uniform(0, longest))
                os.kill(process, signal.SIGKILL)
            status = server.wait()
            assert status in (0, -signal.SIGKILL), output.read_text()
            is_over = status == 0
            done += not is_over
            longest *= 0.5 if is_over else 1.1  # the machine is faster, or slower, than it was
        assert_same_but_for_workers(run, place / "whole")
        runs += 1
    return runs, len(went_on - {0})


def _last_step(checkpoints: Path) -> int:
    return max((int(it.name.removeprefix("step-")) for it in checkpoints.glob("step-*")), default=0)


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
        runs, places = kill_and_resume(server, count, Path(folder))
        print(f"{count} kills in {runs} runs, which went on from {places} checkpoints: all ended in the same bits")
