"""The Learner beside a loop written by hand, Lightning and transformers' Trainer: the time of a step of about 10 ms.

    python -m benchmarks.train.learner

The model, the data, the order and the optimizer (torch's fused AdamW) are the same, and each says the loss every 10
steps. A time is that of all steps but the first 10, by the clock, divided by their number; building and closing a
trainer is not counted. The last line has the Learner with saves in the background: how long the training waits for one,
and what the ten steps beside it take more than ten median steps, for the writer needs a CPU as the training does.
"""

import io
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks._harness import Comparison, compare, main
from burnlike.train import Callback, Checkpointer, Learner, PlainRenderer, TrainingConfig

STEPS, WARM_UP, LOG_EVERY, SAVE_AFTER = 60, 10, 10, 35
BATCH = 128
MOST_REPEATS = 7
BAR_BY_HAND = 0.97
BAR_PEERS = 1.0


class Network(nn.Module):
    """Three linear layers, 1.3 M parameters; called as Lightning and the Trainer of transformers call models, too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def loader() -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(STEPS * BATCH, 256, generator=generator)
    y = torch.randint(0, 10, (STEPS * BATCH,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


def per_step(ends: Sequence[float]) -> float:
    """Seconds of a step, by the times at which steps ended."""
    return (ends[-1] - ends[WARM_UP - 1]) / (len(ends) - WARM_UP)


def by_hand() -> float:
    model, ends, losses = Network().train(), list[float](), list[Tensor]()
    optimizer = adamw(model)
    for x, y in loader():
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        if len(losses) == LOG_EVERY:
            print(torch.stack(losses).mean().item(), file=io.StringIO())
            losses = []
        ends.append(time.perf_counter())
    return per_step(ends)


class _Times(Callback):
    def __init__(self) -> None:
        self.starts: list[float] = []
        self.ends: list[float] = []

    def on_batch_start(self, learner: Learner[Any], batch: Any) -> None:
        self.starts.append(time.perf_counter())

    def on_step_end(self, learner: Learner[Any]) -> None:
        self.ends.append(time.perf_counter())


def learner_times(training: TrainingConfig, checkpointer: Checkpointer | None = None) -> _Times:
    model, times = Network(), _Times()
    learner = Learner(model, adamw(model), loss=lambda model, it: functional.cross_entropy(model(it[0]), it[1]))
    renderer = PlainRenderer(io.StringIO())
    learner.fit(loader(), training=training, checkpointer=checkpointer, renderer=renderer, callbacks=[times])
    return times


def ours() -> float:
    return per_step(learner_times(TrainingConfig(log_every_steps=LOG_EVERY)).ends)


def lightnings() -> float:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = Network()
            self.ends: list[float] = []

        def training_step(self, batch: Any, _: int) -> Tensor:
            loss = functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def on_train_batch_end(self, *_: Any) -> None:
            self.ends.append(time.perf_counter())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return adamw(self)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    module = Module()
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=LOG_EVERY,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, loader())
    return per_step(module.ends)


def transformers_trainers() -> float:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Ends(TrainerCallback):
        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ends.append(time.perf_counter())

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = Network()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": functional.cross_entropy(self.network(x), labels)}

    def joined(items: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        return {"x": torch.stack([x for x, _ in items]), "labels": torch.stack([y for _, y in items])}

    model, ends = WithLoss(), Ends()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            save_strategy="no",
            logging_steps=LOG_EVERY,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            log_level="error",
            max_grad_norm=0.0,
        )
        trainer = Trainer(
            model,
            arguments,
            train_dataset=loader().dataset,
            data_collator=joined,
            callbacks=[ends],
            optimizers=(adamw(model), None),
        )
        trainer.log = lambda *_, **__: None
        trainer.train()
    return per_step(ends.ends)


def stall() -> tuple[float, float, float]:
    """Seconds that the training waits for a save, that ten steps beside it take more, and of the median step."""
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingConfig(checkpoint_every_steps=SAVE_AFTER, log_every_steps=1000)
        times = learner_times(training, Checkpointer(Path(folder)))
    steps = [after - before for before, after in pairwise(times.ends)]
    step = statistics.median(steps)
    waits = [start - end for end, start in zip(times.ends, times.starts[1:], strict=False)]
    waited = waits[SAVE_AFTER - 1] - statistics.median(waits)
    return waited, sum(steps[SAVE_AFTER - 1 : SAVE_AFTER + 9]) - 10 * step, step


def run(repeats: int) -> list[Comparison]:
    """The Learner beside each of the others."""
    repeats = min(repeats, MOST_REPEATS)
    peers: tuple[tuple[str, Callable[[], float], float], ...] = (
        ("a loop by hand", by_hand, BAR_BY_HAND),
        ("Lightning", lightnings, BAR_PEERS),
        ("transformers' Trainer", transformers_trainers, BAR_PEERS),
    )
    measured = [
        compare("a step of training", ours, theirs, theirs_name=name, bar=bar, repeats=repeats, measure=lambda it: it())
        for name, theirs, bar in peers
    ]
    waited, more, step = (statistics.median(it) * 1e3 for it in zip(*(stall() for _ in range(repeats)), strict=True))
    reached = "reached" if waited < step else "MISSED"
    print(
        f"a save: the training waits {waited:.1f} ms, and ten steps beside it take {more:.1f} ms more;"
        f" a step takes {step:.1f} ms (bar: less than a step: {reached})"
    )
    return measured


if __name__ == "__main__":
    main("The Learner beside other loops", run)
