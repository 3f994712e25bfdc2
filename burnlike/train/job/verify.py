"""Proves that a job which is stopped, killed and resumed does what one does that was not."""

import io
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..._env import ignore_leaks_of_killed_processes
from ...config import registry
from ...config.hiding import values_hidden
from ...errors import TrainingError
from ...record import SafetensorsRecorder
from ..learner.learner import Learner
from ..learner.stopping import Interrupted, Interrupter
from ..runs.logs import MetricsLog
from ..runs.run_dir import open_or_create
from ..view.callback import Callback
from ..view.renderers import PlainRenderer
from .configs import TrainConfig
from .job import Job

_SHORTEST = 4
_UNKNOWN = 1000
_RATES = ("_per_s", "time")


class Leg(NamedTuple):
    """A part of a run, in a process of its own: the step after which it ends, or is killed without a checkpoint."""

    stop: int
    is_killed: bool = False


class Difference(NamedTuple):
    """A tensor of a record or a line of metrics in which the resumed run differs from the other, and how."""

    where: str
    what: str


def shortened(config: TrainConfig, steps: int) -> TrainConfig:
    """The job with two short epochs, so that the proof has the end of an epoch in its middle."""
    half = max(steps, _SHORTEST) // 2
    values = config.to_dict()
    training = values["training"]
    planned = training["epochs"] * (training["steps_per_epoch"] or _UNKNOWN)
    values["training"] = {
        **training,
        "epochs": max(2, -(-planned // half)),  # schedules see as many steps as planned
        "steps_per_epoch": half,
        "validation_steps": min(training["validation_steps"] or 4, 4),
        "checkpoint_every_steps": max(1, half // 3),
        "log_every_steps": 1,
    }
    # The proof is of no run that anyone wants to keep.
    values["checkpoint"] = {**values["checkpoint"], "mirror": None}
    return TrainConfig.from_dict(values, "the config of the proof")


def legs_of(config: TrainConfig) -> list[Leg]:
    """The interruptions of the resumed run: once by a kill, in both epochs."""
    half = config.training.steps_per_epoch or 1
    last = 2 * half
    stops = [Leg(max(1, half // 2)), Leg(min(half + max(1, half // 3), last - 1), is_killed=True), Leg(last)]
    return [leg for place, leg in enumerate(stops) if place == len(stops) - 1 or leg.stop < stops[place + 1].stop]


def run_legs(config: TrainConfig, directory: Path, legs: Sequence[Leg], imports: Sequence[str] = ()) -> None:
    # New processes, not forks: nothing of this one's state, such as generators, may help the resumed run.
    context = multiprocessing.get_context("spawn")
    ignore_leaks_of_killed_processes()
    for leg in legs:
        process = context.Process(target=_run_leg, args=(config.to_yaml(), str(directory), leg, list(imports)))
        process.start()
        process.join()
        expected = -signal.SIGKILL if leg.is_killed else 0
        if process.exitcode != expected:
            raise TrainingError(
                f"the process that was to run to step {leg.stop} in {directory} ended with the status"
                f" {process.exitcode}, expected {expected}; what it printed says why"
            )


def _run_leg(text: str, directory: str, leg: Leg, imports: list[str]) -> None:
    registry.import_modules(imports)
    interrupter = Interrupter()
    config = TrainConfig.from_yaml(text)
    with values_hidden(config), closing(open_or_create(directory)) as run:
        job = Job(config)
        try:
            job.run(run, PlainRenderer(io.StringIO()), interrupter, [_Stop(leg, interrupter)])
        except Interrupted:
            return


class _Stop(Callback):
    """Ends a leg."""

    def __init__(self, leg: Leg, interrupter: Interrupter) -> None:
        self._leg = leg
        self._interrupter = interrupter

    def on_step_end(self, learner: Learner[Any]) -> None:
        if learner.step == self._leg.stop:
            if self._leg.is_killed:
                os.kill(os.getpid(), signal.SIGKILL)  # no exception: nothing may be written on the way out
            self._interrupter.stop()


def differences(run: Path, other: Path) -> Iterator[Difference]:
    """The differences of the last checkpoints and the metrics of two runs; rates and times are left out."""
    first, second = (max((it / "checkpoints").glob("step-*")) for it in (run, other))
    if first.name != second.name:
        yield Difference("the last checkpoint", f"{first.name} and {second.name}")
        return
    for file in sorted(first.glob("*.safetensors")):
        a, b = (SafetensorsRecorder().load(it / file.name) for it in (first, second))
        for name in sorted({*a.tensors, *b.tensors}):
            if name not in a.tensors or name not in b.tensors:
                yield Difference(f"{file.stem}: {name}", "is in one of them")
            elif distance := _distance(a.tensors[name], b.tensors[name]):
                yield Difference(f"{file.stem}: {name}", distance)
        if a.values != b.values:
            yield Difference(f"{file.stem}", "plain values differ")
    read = [MetricsLog(it / "metrics.jsonl").read() for it in (run, other)]
    lines = [[{key: it for key, it in line.items() if not key.endswith(_RATES)} for line in them] for them in read]
    if len(lines[0]) != len(lines[1]):
        yield Difference("metrics.jsonl", f"{len(lines[0])} and {len(lines[1])} lines")
    # As far as both go: a difference of their lengths is told above.
    for a, b in zip(*lines, strict=False):
        for name in a:
            if a[name] != b.get(name):
                where = f"metrics.jsonl: {name} of {a['split']} at step {a['step']}"
                yield Difference(where, f"{a[name]} and {b.get(name)}")


def _distance(a: torch.Tensor, b: torch.Tensor) -> str:
    """The difference between the bits; empty if there is none."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}"
    if torch.equal(*(it.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8) for it in (a, b))):
        return ""
    a, b = (it if it.is_complex() else it.double() for it in (a, b))
    return f"by at most {(a - b).abs().max().item():.3g}"
