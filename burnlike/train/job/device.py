"""The device of a run: choosing it, whether a model fits into its memory, and time and memory of actions on it."""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..._env import local_rank
from ..._memory import available_memory
from ...backend.torch_backend import find_device
from ...config.registry import tag_of
from ...errors import BurnlikeError, ConfigError, DeviceError


def choose_device(name: str) -> torch.device:
    """The device that a config names: `auto` (a CUDA device, else the CPU), `cpu`, `cuda` or `cuda:N`.

    Those without a number are the first device, or that of the process among those of torchrun on the machine.
    """
    if name == "auto":
        return torch.device("cuda", local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    device = find_device(name)
    if device.type != "cuda":
        return device
    return torch.device("cuda", local_rank() if device.index is None else device.index)


def describe_device(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    return f"{device} ({threads} thread{'s' * (threads != 1)})"


def check_fits(config: Any, device: torch.device, parts: int = 1) -> nn.Module | None:
    """The model on the meta device, None if it can't be built there; refuses one whose tensors can't fit.

    Counted are parameters, their gradients and buffers, divided among so many processes; what a step takes beside them
    depends on the data.
    """
    try:
        module = build_on_meta(config)
    except BurnlikeError:  # some of which are RuntimeErrors, too
        raise
    except (RuntimeError, NotImplementedError):
        return None
    tensors = [*module.parameters(), *module.buffers()]
    nbytes = sum(tensor.nbytes for tensor in tensors) // parts
    trained = nbytes + sum(tensor.nbytes for tensor in tensors if tensor.requires_grad) // parts
    places = {"cpu": (trained if device.type == "cpu" else nbytes, available_memory())}
    if device.type == "cuda":
        places[str(device)] = trained, torch.cuda.mem_get_info(device)[0]
    for place, (needed, available) in places.items():
        if needed > available:
            raise DeviceError(
                f"model: its parameters, gradients and buffers take {needed / 1e9:,.1f} GB of {place}, where"
                f" {available / 1e9:,.1f} GB are available; lower the model's sizes. Nothing was allocated"
            )
    return module


def is_out_of_memory(error: Exception) -> bool:
    """True if an exception means that memory is full: CUDA's, Python's, or torch's on the CPU."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def build_on_meta(config: Any) -> nn.Module:
    try:
        with torch.device("meta"):
            return config.init("meta")
    except RuntimeError as error:
        if "overflow" in str(error):
            raise ConfigError(
                f"{tag_of(type(config)) or type(config).__name__}: larger than any memory ({error}); lower its sizes"
            ) from error
        raise


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(device: torch.device, action: Callable[[], object], repeats: int = 2) -> float:
    """The time of an action, the shortest of some."""
    # The shortest, not the mean: whatever else the machine does can only make it longer.
    times: list[float] = []
    for _ in range(repeats):
        synchronize(device)
        started = time.perf_counter()
        action()
        synchronize(device)
        times.append(time.perf_counter() - started)
    return min(times)


def peak_memory(device: torch.device, action: Callable[[], object]) -> int:
    """Bytes on the device that an action takes at its peak, beyond those in use before."""
    if device.type == "cuda":
        synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        action()
        synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    # torch counts no memory of the CPU by itself: its profiler notes each allocation.
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
    changes = [event["args"] for event in events if event.get("name") == "[memory]"]
    for change in changes:
        if change["Device Type"] == device_type:
            taken += change["Bytes"]
            largest = max(largest, taken)
    return largest
