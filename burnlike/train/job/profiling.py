"""Steps of a training without a run, to measure them; and `burnlike profile CONFIG`: where their time and memory go."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from ..._atomic import replace_file
from ..._env import number_of_ranks
from ..._terminal import table
from ..._torch_compat.cuda_memory import memory_snapshot
from ...errors import ArgumentError, RunDirError
from ..learner.computing import computing
from ..view.formats import format_bytes
from .configs import TrainConfig
from .device import describe_device, peak_of, synchronize, trace_of
from .job import Job

PHASES: tuple[str, ...] = ("data", "forward", "backward", "optimizer")
TRACE, SNAPSHOT = "trace.json", "memory.pickle"
_WARMUP = 2
"""Steps before the measured ones: they compile, and make the optimizer's states."""
_SHOWN = 10


def job_to_measure(config: TrainConfig, command: str) -> Job:
    """The job of a config; an ArgumentError where several processes are to train together."""
    if not config.distributed.is_single or number_of_ranks() > 1:
        raise ArgumentError(f"{command} measures one process: start it alone, with --set distributed.strategy=none")
    return Job(config)


@contextmanager
def training(job: Job) -> Iterator[None]:
    """The model in training mode, computing as the config says."""
    with computing(job.model, job.config.training, job.device):
        job.model.train()
        yield


def batches_of_steps(job: Job) -> Iterator[list[Any]]:
    """The batches of each optimizer step, in the order of a training, epoch after epoch without an end."""
    batches: list[Any] = []
    while True:
        for batch in job.train_loader:
            batches.append(batch)
            if len(batches) == job.training.accumulation_steps:
                yield batches
                batches = []
        if batches:  # the last step of an epoch takes what is left
            yield batches
            batches = []


class Operation(NamedTuple):
    """An operation in the profiled steps: its own time on the device in seconds (without operations that it calls), its
    calls, and its net memory.
    """

    name: str
    seconds: float
    calls: int
    memory: int


class Profile(NamedTuple):
    """Time and memory of some steps.
    Attributes:
        steps: that were measured.
        device: where they were taken, for the user.
        phases: seconds of a step by phase, without the profiler.
        operations: the dearest first.
        resident: bytes of parameters, buffers and the optimizer's states.
        peak: bytes that a step takes at most beside them.
        files: what was written.
    """

    steps: int
    device: str
    phases: Mapping[str, float]
    operations: Sequence[Operation]
    resident: int
    peak: int
    files: Sequence[Path] = ()


def profile_steps(config: TrainConfig, steps: int = 5, directory: Path | None = None) -> Profile:
    """Measure some steps of a config, first without and then with torch's profiler; no run is written.

    Args:
        directory: gets `trace.json`, which chrome://tracing and Perfetto show, and of CUDA `memory.pickle`, which
            pytorch.org/memory_viz shows; None writes nothing.
    """
    job = job_to_measure(config, "profile")
    batches = batches_of_steps(job)
    clock = _Clock(job)
    with training(job), clock.of_the_forward():
        for _ in range(_WARMUP):
            clock.step(batches)
        clock.seconds = dict.fromkeys(PHASES, 0.0)
        # Without the profiler, which takes longer than many of the operations that it notes.
        for _ in range(steps):
            clock.step(batches)
        phases = {name: seconds / steps for name, seconds in clock.seconds.items()}
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if job.device.type == "cuda" else [])]
        optimizer: Any = job.learner.optimizer
        states = optimizer.into_record().tensors.values()
        resident = sum(it.nbytes for it in (*job.model.parameters(), *job.model.buffers(), *states))
        before = 0
        if job.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(job.device)
            before = torch.cuda.memory_allocated(job.device)
        files = [] if directory is None else [directory / TRACE]
        history = memory_snapshot(job.device, None if directory is None else directory / SNAPSHOT)
        with history as snapshot, profile(activities=activities, profile_memory=True) as profiler:
            for _ in range(steps):
                clock.step(batches)
        files += [] if snapshot is None else [snapshot]
    events = trace_of(profiler)
    peak = peak_of(events)
    if job.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(job.device) - before
    if directory is not None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            replace_file(directory / TRACE, json.dumps({"traceEvents": events}).encode())
        except OSError as error:
            why = error.strerror or error
            raise RunDirError(f"{directory / TRACE} can't be written: {why}; choose another --out") from error
    operations = _operations(profiler, job.device.type)
    return Profile(steps, describe_device(job.device), phases, operations, resident, peak, files)


class _Clock:
    """Takes steps, and adds up what each phase takes."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        synchronize(self._job.device)  # a GPU computes on after a call has returned
        started = time.perf_counter()
        with record_function(name):
            yield
            # Within the record: else the profiler's phase would end before the device has computed it.
            synchronize(self._job.device)
        self.seconds[name] += time.perf_counter() - started

    @contextmanager
    def of_the_forward(self) -> Iterator[None]:
        """The learner's task is timed within the block; its backward pass is what else `backward` takes."""
        learner: Any = self._job.learner
        task = learner.task
        learner.task = _Timed(task, self)
        try:
            yield
        finally:
            learner.task = task

    def step(self, batches: Iterator[list[Any]]) -> None:
        learner = self._job.learner
        with self.phase("data"):
            step_batches = next(batches)
        for batch in step_batches:
            before = self.seconds["forward"]
            with self.phase("backward"):
                learner.backward(batch, is_last=batch is step_batches[-1])
            self.seconds["backward"] -= self.seconds["forward"] - before
        with self.phase("optimizer"):
            learner.take_step()
        learner.window.close()


class _Timed:
    """A task whose forward pass is timed."""

    def __init__(self, task: Any, clock: _Clock) -> None:
        self._task, self._clock = task, clock

    def train_step(self, model: nn.Module, batch: Any) -> Any:
        with self._clock.phase("forward"):
            return self._task.train_step(model, batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)


def _operations(profiler: profile, device: str) -> list[Operation]:
    operations = [
        Operation(
            average.key,
            (average.self_device_time_total if device == "cuda" else average.self_cpu_time_total) / 1e6,
            average.count,
            average.self_device_memory_usage if device == "cuda" else average.self_cpu_memory_usage,
        )
        for average in profiler.key_averages()
        if average.key not in PHASES and average.key != "[memory]"
    ]
    return sorted(operations, key=lambda it: -it.seconds)


def profile_lines(measured: Profile) -> list[str]:
    """A profile as tables for the user."""
    step = sum(measured.phases.values()) or 1.0
    total = sum(it.seconds for it in measured.operations) or 1.0
    phases = [("phase", "of a step", "share")]
    phases += [(name, f"{1e3 * it:.2f} ms", f"{100 * it / step:.1f} %") for name, it in measured.phases.items()]
    rows = [("operation", "own time of a step", "share", "calls", "memory")]
    for operation in measured.operations[:_SHOWN]:
        own_time = f"{1e3 * operation.seconds / measured.steps:.2f} ms"
        share = f"{100 * operation.seconds / total:.1f} %"
        sign = "-" if operation.memory < 0 else ""
        memory = f"{sign}{format_bytes(abs(operation.memory) / measured.steps)}"
        rows.append((operation.name[:60], own_time, share, f"{operation.calls / measured.steps:g}", memory))
    return [
        f"{measured.steps} steps on {measured.device}, {1e3 * step:.2f} ms each",
        "",
        *table(phases),
        "",
        *table(rows),
        "",
        f"memory  {format_bytes(measured.resident)} of weights and states, and at most"
        f" {format_bytes(measured.peak)} more in a step",
        *(f"wrote   {file}" for file in measured.files),
    ]
