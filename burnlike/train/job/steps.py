"""Steps of a training without a run, to measure them: nothing is written."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..._env import number_of_ranks
from ..._memory import available_memory
from ...errors import ArgumentError
from ..learner.computing import computing
from .configs import TrainConfig
from .job import Job


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


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(job: Job, action: Callable[[], object], repeats: int = 2) -> float:
    """The time of an action, the shortest of some."""
    times: list[float] = []
    for _ in range(repeats):
        synchronize(job.device)
        started = time.perf_counter()
        action()
        synchronize(job.device)
        times.append(time.perf_counter() - started)
    return min(times)


def peak_memory(job: Job, action: Callable[[], object]) -> int:
    """Bytes on the device that an action takes at its peak, beyond those in use before."""
    if job.device.type == "cuda":
        synchronize(job.device)
        torch.cuda.reset_peak_memory_stats(job.device)
        before = torch.cuda.memory_allocated(job.device)
        action()
        synchronize(job.device)
        return torch.cuda.max_memory_allocated(job.device) - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        action()
    return peak_of(trace_of(profiler))


def trace_of(profiler: torch.profiler.profile) -> Sequence[dict[str, Any]]:
    """The events of a profile."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text("utf-8"))["traceEvents"]


def peak_of(events: Sequence[dict[str, Any]], device_type: int = 0) -> int:
    """The largest sum of the allocations in a trace, of the CPU or of another type of device."""
    taken = largest = 0
    changes = [it["args"] for it in events if it.get("name") == "[memory]"]
    for change in changes:
        if change["Device Type"] == device_type:
            taken += change["Bytes"]
            largest = max(largest, taken)
    return largest


def free_memory(device: torch.device) -> int:
    """Bytes that tensors on a device can still take, also those that torch keeps and does not use."""
    if device.type != "cuda":
        return available_memory()
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused
