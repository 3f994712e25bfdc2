"""Reads damaged and hostile files until the time or the number of cases is over.

    python -m tests.record.fuzz.fuzz [--seconds 60 | --cases 20000] [--seed 0]

Every file is read whole, loaded into a module, and must give a record or a RecordError. The process may take 400 MB
more than it begins with and five seconds of a core a file. A file that breaks that is kept as `fuzz-SEED.bin`, and the
exit status is 1. A crash of the process itself leaves it, too.
"""

import argparse
import io
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from burnlike.errors import RecordError
from burnlike.nn import LinearConfig
from burnlike.record import EXTENSIONS, Record, recorder_for
from burnlike.record.bytes.source import BytesSource, GzipSource
from burnlike.record.formats import detect
from burnlike.record.record import record_of

from .mutations import hostile, mutated

EXTRA_BYTES = 400 << 20
SECONDS_EACH = 10  # of the processor, which is slower beside other work
GOLDEN = Path(__file__).parents[2] / "golden"
LARGEST = 6000  # bytes of a file to begin with


class TookTooLongError(Exception):
    """A file took more than its time."""


def seeds() -> list[tuple[bytes, Any]]:
    """Whole files and their layouts: Burn's, and ours with everything that a record can hold."""
    from tests.golden.layouts import layout_for

    found: list[tuple[bytes, Any]] = []
    for path in sorted(GOLDEN.glob("v0.2*/*")):
        if path.suffix == ".md" or path.name.endswith("values.json") or path.stat().st_size > LARGEST:
            continue
        name = path.name.split(".")[0].rsplit("-", 1)[0]
        layout = None
        if ".bin" in path.name:
            import json

            layout = layout_for(json.loads((path.parent / f"{name}.values.json").read_text()))
        found.append((path.read_bytes(), layout))
    tensors = {"a.weight": torch.arange(6.0).view(2, 3), "a.count": torch.tensor(3), "b": torch.tensor([True, False])}
    values = {"step": 3, "deep": {"list": [1, 2.5, None, "x", {"y": True}]}, "inf": float("inf")}
    record = Record(tensors, values, aliases={"c": "a.weight"}, states=["a.count"])
    for extension in EXTENSIONS:
        if ".bin" not in extension:
            found.append((recorder_for(f"x{extension}").to_bytes(record), None))
    views = {"whole": tensors["a.weight"], "turned": tensors["a.weight"].t(), "part": tensors["a.weight"][1]}
    for zipped in (True, False):
        memory = io.BytesIO()
        torch.save({**tensors, "views": views, "values": values}, memory, _use_new_zipfile_serialization=zipped)
        found.append((memory.getvalue(), None))
    return found


def read(data: bytes, layout: Any) -> str:
    """Read a file whole and load it; `whole`, or `refused`.

    Raises:
        Exception: something that is no RecordError.
    """
    try:
        source = BytesSource(data)
        form = detect(source)
        inner = GzipSource(source) if form.compressed else source
        record = record_of(inner, form.read(inner, layout))
        for name in record.tensors:
            _ = record.tensors[name]
    except RecordError:
        return "refused"
    module = LinearConfig(d_input=3, d_output=2).init()
    try:
        record.load_into(module)
        record.load_into(module, strict=False)
    except RecordError:
        return "whole"
    return "whole and loaded"


def cases(seed: int) -> Iterator[tuple[int, bytes, Any]]:
    """Number, content and layout of each file, without end."""
    wholes = seeds()
    others = [data for data, _ in wholes]
    for index, data in enumerate(hostile()):
        yield -1 - index, data, None
    smallest = [(data, layout) for data, layout in wholes if len(data) < 600]
    number = seed * 1_000_000_000
    for data, layout in smallest[:12]:
        for length in range(len(data)):
            yield -1, data[:length], layout
    while True:
        rng = random.Random(number)
        data, layout = rng.choice(wholes)
        yield number, mutated(rng, data, others), layout
        number += 1


def too_long(signum: int, frame: object) -> None:
    raise TookTooLongError


def main() -> int:
    parser = argparse.ArgumentParser(description="Read damaged and hostile record files.")
    parser.add_argument("--seconds", type=float, help="how long")
    parser.add_argument("--cases", type=int, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="where to begin")
    parser.add_argument("--keep", type=Path, default=Path(), help="folder for files that break the rules")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, too_long)
    counts: Counter[str] = Counter()
    begin = time.monotonic()
    kept = arguments.keep / f"fuzz-{arguments.seed}.bin"
    all_cases = cases(arguments.seed)
    first = next(all_cases)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + EXTRA_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    case = first
    file = kept.open("wb", buffering=0)
    while (arguments.seconds is None or time.monotonic() - begin < arguments.seconds) and (
        arguments.cases is None or counts.total() < arguments.cases
    ):
        number, data, layout = case
        file.seek(0)
        file.truncate()
        file.write(data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS_EACH)
        try:
            counts[read(data, layout)] += 1
        except BaseException as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(f"case {number}: {type(error).__name__}: {error}; the file is kept as {kept}", flush=True)
            raise
        signal.setitimer(signal.ITIMER_PROF, 0)
        case = next(all_cases)
    kept.unlink(missing_ok=True)
    print(f"{counts.total()} files: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
