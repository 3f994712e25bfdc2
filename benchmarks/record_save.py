"""A bf16 save of 355 M float32 values (the shapes of GPT-2 medium) against converted copies, saved by others.

    python -m benchmarks.record_save

The others are `safetensors.torch.save_file` and `torch.save`. Ours always syncs the file and its directory before it
returns; theirs leave the bytes in the page cache, so they are timed as they are shipped and with an fsync of the file.
Each is timed in fresh processes, as a program that saves now and then finds its memory (theirs need 0.7 GB for the
copies and 0.7 GB of page cache), and back to back in one process, where theirs get the memory back that their last call
has just freed. All files lie in one directory of the same disk. A last line compares with the rate at which the same
number of bytes is written from one buffer and synced. The lines on checksums compare our save with itself without the
CRC-32 of each tensor, on the disk and in memory (/dev/shm), where nothing waits for a disk. The extra peak memory is
that of the process over what it held before the save.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import torch
from safetensors.torch import save_file
from torch import Tensor

from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
from burnlike.record.saving import writing

from ._harness import Comparison, compare, main
from ._memory import with_extra_bytes

BAR = 3.0
BAR_BYTES = 16 << 20
BAR_OF_PLAIN_WRITE = 0.7
BAR_OF_CHECKSUMS = 0.95
MOST_REPEATS = 5  # of each line; a repeat of all takes about twenty seconds


def tensors() -> dict[str, Tensor]:
    """354.8 M values in 294 tensors."""
    shapes = {"wte": (50257, 1024), "wpe": (1024, 1024), "ln_f.weight": (1024,), "ln_f.bias": (1024,)}
    for layer in range(24):
        block = {"attn.weight": (1024, 3072), "attn.bias": (3072,), "proj.weight": (1024, 1024), "proj.bias": (1024,)}
        block |= {"fc.weight": (1024, 4096), "fc.bias": (4096,), "out.weight": (4096, 1024), "out.bias": (1024,)}
        block |= dict.fromkeys(("ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias"), (1024,))
        shapes |= {f"h.{layer}.{name}": shape for name, shape in block.items()}
    return {name: torch.empty(shape).normal_(0, 0.02) for name, shape in shapes.items()}


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def sides(values: dict[str, Tensor], folder: Path) -> dict[str, Callable[[], object]]:
    record, recorder = Record(values), SafetensorsRecorder(BFloat16Precision)
    path = folder / "theirs"

    def converted() -> dict[str, Tensor]:
        return {name: tensor.to(torch.bfloat16) for name, tensor in values.items()}

    def safetensors_file() -> None:
        save_file(converted(), path)

    def pickled() -> None:
        torch.save(converted(), path)

    def synced(save: Callable[[], object]) -> Callable[[], object]:
        def save_and_sync() -> None:
            save()
            sync(path)

        return save_and_sync

    return {
        "ours": lambda: recorder.save(record, folder / "ours.safetensors"),
        "save_file": safetensors_file,
        "save_file+fsync": synced(safetensors_file),
        "torch.save": pickled,
        "torch.save+fsync": synced(pickled),
    }


THEIRS = ("save_file", "save_file+fsync", "torch.save", "torch.save+fsync")


def plain_write(total_bytes: int, folder: Path) -> Callable[[], object]:
    """The same number of bytes from one buffer, synced: as fast as this disk is without O_DIRECT."""
    buffer = memoryview(bytes(8 << 20))
    path = folder / "plain"

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            for begin in range(0, total_bytes, len(buffer)):
                file.write(buffer[: min(len(buffer), total_bytes - begin)])
            os.fsync(file.fileno())

    return write


def child(side: str, folder: str, threads: str) -> None:
    """One save of a fresh process: seconds and extra peak memory, as JSON."""
    torch.set_num_threads(int(threads))
    call = sides(tensors(), Path(folder))[side]
    for action in sides({"warm": torch.ones(100_000)}, Path(folder)).values():
        action()
    seconds, extra_bytes = with_extra_bytes(lambda: seconds_of(call))
    print(json.dumps({"seconds": seconds, "extra_bytes": extra_bytes}))


def seconds_of(call: Callable[[], object]) -> float:
    """Unlike `_harness.time_of` it asks no GPU, which would take memory."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def fresh(side: str, folder: Path) -> dict[str, float]:
    code = "import sys; from benchmarks.record_save import child; child(*sys.argv[1:])"
    command = [sys.executable, "-c", code, side, str(folder), str(torch.get_num_threads())]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def in_fresh_processes(folder: Path, repeats: int) -> list[Comparison]:
    found: dict[str, list[dict[str, float]]] = {}
    for repeat in range(repeats):
        order = ["ours", *THEIRS]
        for side in order if repeat % 2 else reversed(order):
            found.setdefault(side, []).append(fresh(side, folder))
    ours_s = statistics.median(run["seconds"] for run in found["ours"])
    ours_bytes = max(run["extra_bytes"] for run in found["ours"])
    results = []
    for side in THEIRS:
        theirs_s = statistics.median(run["seconds"] for run in found[side])
        theirs_bytes = max(run["extra_bytes"] for run in found[side])
        within = "reached" if ours_bytes < BAR_BYTES else "MISSED"
        note = (
            f"extra peak: ours {ours_bytes / 2**20:.1f} MiB (bar {BAR_BYTES >> 20}: {within}), "
            f"theirs {theirs_bytes / 2**20:.1f} MiB"
        )
        result = Comparison(
            f"save bf16 355 M, fresh process, {side}",
            *(ours_s * 1e3, theirs_s * 1e3, side, theirs_s / ours_s, BAR, repeats, torch.get_num_threads(), note),
        )
        print(result, flush=True)
        results.append(result)
    return results


def back_to_back(folder: Path, repeats: int) -> list[Comparison]:
    values = tensors()
    calls = sides(values, folder)
    total_bytes = 2 * sum(tensor.numel() for tensor in values.values())
    others = {name: call for name, call in calls.items() if name != "ours"}
    others["plain write+fsync"] = plain_write(total_bytes, folder)
    return [
        compare(
            f"save bf16 355 M, back to back, {name}",
            calls["ours"],
            call,
            theirs_name=name,
            bar=BAR_OF_PLAIN_WRITE if name.startswith("plain") else BAR,
            repeats=repeats,
        )
        for name, call in others.items()
    ]


def checksums(folder: Path, repeats: int) -> list[Comparison]:
    """What the checksums cost."""
    values = tensors()
    found = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        for where, place, bar in (("disk", folder, BAR_OF_CHECKSUMS), ("memory", Path(memory), None)):
            save = sides(values, place)["ours"]

            def without(save: Callable[[], object] = save) -> None:
                with mock.patch.object(writing, "crc32", return_value=0):
                    save()

            found.append(
                compare(
                    f"save bf16 355 M to {where}", save, without, theirs_name="no checksums", bar=bar, repeats=repeats
                )
            )
    return found


def run(repeats: int) -> Sequence[Comparison]:
    repeats = min(repeats, MOST_REPEATS)
    cache = Path(".cache")
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name).resolve()
        return [*checksums(folder, repeats), *in_fresh_processes(folder, repeats), *back_to_back(folder, repeats)]


if __name__ == "__main__":
    main("Saving a model in bf16 (ours is synced to the disk in every line)", run)
