"""Results of the benchmarks: for each run a file `<machine>/<time>-<commit>.json` in benchmarks/results.

The folder names the processor by family and model, or the GPU. A run may be of some benchmarks only.
"""

import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import torch

from burnlike._atomic import replace_file

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Comparison:
    """What one comparison gave.

    Attributes:
        name: what was measured.
        ours_ms: median time of one call of ours.
        theirs_ms: median time of one call of theirs.
        theirs: what we compare with.
        ratio: theirs / ours; above 1 we are faster.
        bar: the ratio that we want to reach; None if there is none.
        repeats: calls of each side.
        threads: threads that torch uses.
        note: anything a reader needs, such as an error between the outputs.
    """

    name: str
    ours_ms: float
    theirs_ms: float
    theirs: str
    ratio: float
    bar: float | None
    repeats: int
    threads: int
    note: str

    def __str__(self) -> str:
        bar = "" if self.bar is None else f" (bar {self.bar:g}x: {'reached' if self.ratio >= self.bar else 'MISSED'})"
        times = f"ours {self.ours_ms:9.3f} ms   {self.theirs} {self.theirs_ms:9.3f} ms"
        return f"{self.name:44} {times}   {self.ratio:6.2f}x{bar}{'   ' + self.note if self.note else ''}"


Key = tuple[str, str, str]
"""Which row it is, in all runs: the benchmark, the name, what it is compared with."""


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of benchmarks.

    Attributes:
        machine: the processor with its family and model and the number of cores, or the GPU.
        versions: of torch and Python.
        commit: of burnlike; `changed` where files differed from it.
        time: of the end, in UTC.
        rows: of each benchmark, by the name of its module.
    """

    machine: str
    versions: dict[str, str]
    commit: str
    changed: bool
    time: str
    rows: dict[str, list[Comparison]]

    @property
    def by_key(self) -> dict[Key, Comparison]:
        return by_key(self.rows)


def by_key(rows: Mapping[str, Sequence[Comparison]]) -> dict[Key, Comparison]:
    return {(benchmark, row.name, row.theirs): row for benchmark, found in rows.items() for row in found}


def machine() -> str:
    """This machine, as results name it."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    fields = dict(_processor())
    cores = f"{torch.get_num_threads()} threads"
    if "model name" not in fields:
        return f"{platform.machine()}, {cores}"
    return f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']}), {cores}"


def _processor() -> Iterator[tuple[str, str]]:
    """What Linux tells of the first core."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return
    for line in text.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def write(folder: Path, rows: Mapping[str, Sequence[Comparison]], path: Path | None = None) -> Path:
    """Write what this process has measured to a new file, or again to its `path`, and return the path."""
    commit = _git("rev-parse", "HEAD") or "unknown"
    now = datetime.now(UTC)
    run = Run(
        machine=machine(),
        versions={"torch": str(torch.__version__), "python": platform.python_version()},
        commit=commit,
        changed=bool(_git("status", "--porcelain", "--untracked-files=no")),
        time=now.isoformat(timespec="seconds"),
        rows={name: [*found] for name, found in rows.items() if found},
    )
    path = path or folder / folder_of(run.machine) / f"{now:%Y-%m-%dT%H%M%S}-{commit[:8]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
    return path


def _git(*arguments: str) -> str:
    """What git prints; nothing outside of a checkout."""
    command = ["git", "-C", str(FOLDER.parent), *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def folder_of(name: str) -> str:
    """The name of a machine as that of a folder."""
    return re.sub(r"\W+", "-", name).strip("-").lower()


def read(path: Path) -> Run:
    """The run of a file. Raises msgspec.ValidationError if it is none."""
    return msgspec.json.decode(path.read_bytes(), type=Run)


def read_all(folder: Path) -> list[Run]:
    """All runs in the folders of machines, the oldest first."""
    return sorted((read(path) for path in folder.glob("*/*.json")), key=lambda run: run.time)


def last_values(runs: Sequence[Run], machine: str) -> dict[Key, tuple[Comparison, Run]]:
    """Of each row the last value that was measured on a machine, and the run that did."""
    return {key: (row, run) for run in runs if run.machine == machine for key, row in run.by_key.items()}
