"""A process that saves as it is told, so that saves can be made to fail or be killed: one JSON line in, one out.

    python -m tests.record.crash.saver FOLDER

A save that is killed is made in a fork, which spares two hundred starts of torch.
"""

import ctypes
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder, recorder_for

LARGE, SMALL = 9_000_000, 3_000  # the large one is long enough to go past the page cache


def record(version: int, elements: int) -> Record:
    """Every value of every tensor is the version."""
    tensors = {f"part{index}": torch.full((elements // 3,), float(version)) for index in range(3)}
    return Record(tensors, {"version": version})


def save_sharded(folder: Path, version: int) -> None:
    """Several files and an index."""
    (folder / "sharded").mkdir(exist_ok=True)
    SafetensorsRecorder(BFloat16Precision, shard_bytes=100_000).save(record(version, 3 * 40_000), folder / "sharded")


def save_async(folder: Path, version: int) -> None:
    """A snapshot that a thread writes."""
    SafetensorsRecorder(BFloat16Precision).save_async(record(version, SMALL), folder / "async.safetensors").wait()


def save_as(name: str, elements: int) -> Callable[[Path, int], object]:
    """Save one file."""
    return lambda folder, version: recorder_for(name, BFloat16Precision).save(record(version, elements), folder / name)


SAVES: dict[str, Callable[[Path, int], object]] = {
    "large.safetensors": save_as("large.safetensors", LARGE),
    "small.safetensors": save_as("small.safetensors", SMALL),
    "small.mpk": save_as("small.mpk", SMALL),
    "small.json.gz": save_as("small.json.gz", SMALL),
    "small.bpk": save_as("small.bpk", SMALL),
    "sharded": save_sharded,
    "async.safetensors": save_async,
}

NEXT: dict[str, Callable[[Path, int], object]] = {**SAVES, "large.safetensors": save_as("large.safetensors", SMALL)}
"""The saves that tidy up: the same, but quick."""


def main(folder: Path) -> None:
    """Obey the lines on the standard input."""
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    torch.set_num_threads(1)
    for line in sys.stdin:
        order = json.loads(line)
        save = (NEXT if order.get("next") else SAVES)[order["save"]]

        def run(order: dict[str, int] = order, save: Callable[[Path, int], object] = save) -> str:
            shim.shim_arm(order.get("at", -1), order.get("failure", 0))
            start = time.perf_counter()
            error = ""
            try:
                save(folder, order["version"])
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
            calls = shim.shim_count()
            shim.shim_arm(-1, 0)
            return json.dumps({"error": error, "calls": calls, "seconds": time.perf_counter() - start})

        print(in_fork(run, order.get("kill_within", 0.0)) if order.get("fork") else run(), flush=True)


def in_fork(run: Callable[[], str], kill_within: float) -> str:
    """Run in a fork, which is killed at a random moment if `kill_within` seconds are given."""
    pid = os.fork()
    if pid == 0:
        run()
        os._exit(0)
    if kill_within:
        time.sleep(random.uniform(0, kill_within))
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return json.dumps({"killed": os.WIFSIGNALED(status)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
