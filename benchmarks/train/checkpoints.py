"""A checkpoint of a Learner beside those of Lightning and transformers' Trainer: time, memory, lines of code.

    python -m benchmarks.train.checkpoints

The programs below are what a user writes to train the same network with the same optimizer, with a checkpoint of
everything after step 6; the lines are those of their source. Each runs in processes of its own, in turns. The time is
how much longer step 6 takes with its checkpoint than the median of the other steps. Memory is the peak of the process
in steps 6 and 7 over what it held before, less the same of steps 3 and 4, which need gradients too. A Learner writes in
the background unless it is told not to; both are measured.
"""

import inspect
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks._harness import Comparison, main
from benchmarks._memory import restart_peak, rise_to_peak

WIDTH, BATCH, STEPS, SAVED = 2048, 16, 10, 6
MOST_REPEATS = 5
LEAST_BYTES = 2e8
BAR = 1.0
DATA = TensorDataset(torch.randn(STEPS * BATCH, WIDTH), torch.randint(0, 10, (STEPS * BATCH,)))


class Network(nn.Module):
    """25.2 M parameters: with AdamW's moments 302 MB."""

    def __init__(self) -> None:
        super().__init__()
        layers = [it for _ in range(6) for it in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(WIDTH, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def ours(folder: Path, at_start: Callable[[int], None], background: bool = True) -> None:
    from burnlike.train import Callback, Learner, TrainingConfig

    class Starts(Callback):  # measures
        def on_batch_start(self, learner: Any, batch: Any) -> None:  # measures
            at_start(learner.step)  # measures

    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    learner = Learner(model, optimizer, loss=lambda model, it: functional.cross_entropy(model(it[0]), it[1]))
    training = TrainingConfig(checkpoint_every_steps=SAVED, background_checkpoints=background)
    learner.fit(DataLoader(DATA, BATCH), None, training, directory=folder, callbacks=[Starts()])


def ours_waiting(folder: Path, at_start: Callable[[int], None]) -> None:
    ours(folder, at_start, background=False)


def lightnings(folder: Path, at_start: Callable[[int], None]) -> None:
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = Network()

        def training_step(self, batch: Any, _: int) -> Tensor:
            return functional.cross_entropy(self.network(batch[0]), batch[1])

        def on_train_batch_start(self, *_: Any) -> None:  # measures
            at_start(self.trainer.global_step)  # measures

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)

    checkpoints = ModelCheckpoint(folder, every_n_train_steps=SAVED, save_top_k=-1)
    options: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=[checkpoints], **options)
    trainer.fit(Module(), DataLoader(DATA, BATCH))


def transformers_trainers(folder: Path, at_start: Callable[[int], None]) -> None:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = Network()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": functional.cross_entropy(self.network(x), labels)}

    class Starts(TrainerCallback):  # measures
        def on_step_begin(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:  # measures
            at_start(state.global_step)  # measures

    def joined(items: Any) -> dict[str, Tensor]:
        return {"x": torch.stack([x for x, _ in items]), "labels": torch.stack([y for _, y in items])}

    options: dict[str, Any] = {"report_to": [], "disable_tqdm": True, "max_grad_norm": 0.0, "logging_steps": 1000}
    arguments = TrainingArguments(
        str(folder), num_train_epochs=1, per_device_train_batch_size=BATCH, save_steps=SAVED, use_cpu=True, **options
    )
    model = WithLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = {"data_collator": joined, "train_dataset": DATA}
    Trainer(model, arguments, **data, optimizers=(optimizer, None), callbacks=[Starts()]).train()


OURS = ("a checkpoint", "a checkpoint in the foreground")
PEERS = ("Lightning", "transformers' Trainer")
USERS = {OURS[1]: ours}
"""Whose lines are counted for a program that only sets an option of another one."""

PROGRAMS = dict(zip((*OURS, *PEERS), (ours, ours_waiting, lightnings, transformers_trainers), strict=True))


def child(name: str) -> None:
    """Run a program and print the seconds of its checkpoint and its extra bytes."""
    starts, rises = list[float](), dict[int, int]()
    before = 0

    def at_start(done: int) -> None:
        nonlocal before
        if done in (4, SAVED + 1):
            rises[done] = rise_to_peak(before)
        starts.append(time.perf_counter())
        if done in (2, SAVED - 1):
            before = restart_peak()

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PROGRAMS[name](Path(folder), at_start)
        assert any(it.stat().st_size > 2e8 for it in Path(folder).rglob("*") if it.is_file()), (
            "no checkpoint was written"
        )
    steps = [after - before for before, after in pairwise(starts)]
    print("measured", steps[SAVED - 1] - statistics.median(steps), rises[SAVED + 1] - rises[4])


def measured(name: str) -> tuple[float, float]:
    """The seconds and bytes of a program's checkpoint, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.train.checkpoints", "--child", name],
        capture_output=True,
        text=True,
        check=True,
    )
    line = next(it for it in done.stdout.splitlines() if it.startswith("measured"))
    seconds, extra = map(float, line.split()[1:])
    return seconds, extra


def lines_of(program: Callable[..., None]) -> int:
    """Lines of a program without empty ones and without those that only measure."""
    return sum(1 for it in inspect.getsource(program).splitlines() if it.strip() and not it.endswith("# measures"))


def run(repeats: int) -> list[Comparison]:
    """Each program in turns."""
    repeats = min(repeats, MOST_REPEATS)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    for _ in range(repeats):
        for name, values in found.items():
            values.append(measured(name))
    medians = {name: [statistics.median(it) for it in zip(*values, strict=True)] for name, values in found.items()}
    for name, (seconds, extra) in medians.items():
        lines = lines_of(USERS.get(name, PROGRAMS[name]))
        print(f"{name:28} checkpoint {seconds * 1e3:7.1f} ms   memory {extra / 1e6:6.1f} MB   {lines} lines")
    fastest = min(PEERS, key=lambda name: medians[name][0])
    results = []
    for name in OURS:
        ours_ms, theirs_ms = medians[name][0] * 1e3, medians[fastest][0] * 1e3
        threads = torch.get_num_threads()
        results.append(Comparison(name, ours_ms, theirs_ms, fastest, theirs_ms / ours_ms, BAR, repeats, threads, ""))
        print(results[-1])
    return results


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main("A checkpoint beside other trainers'", run)
