"""Part `profile`: figures of ncu for the three rows that are the slowest beside a copy."""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from . import processes, results
from .environment import ROOT, tool
from .results import CUT, NOT_RUN, Part

ROWS = 3
BENCHMARK = "ops.sizes_device"
COPY = "copy of as many bytes"
METRICS = {
    "gpu__time_duration.sum": "us",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "% of memory",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "% of the multiprocessors",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "% of the warps",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": "sectors a store",
    "launch__registers_per_thread": "registers",
}
# For a rehearsal, and where no row was measured.
TINY = [
    "rms_norm forward 16 x 64 float32",
    "rotary both passes 16 x 64 float32",
    "cross_entropy forward 16 x 64 float32",
]
USUAL = [
    "cross_entropy both passes 8192 x 32000 bfloat16",
    "rotary forward 16384 x 4096 bfloat16",
    "rms_norm both passes 16384 x 4096 bfloat16",
]


def run(part: Part) -> None:
    """Run the rows under ncu; on a CPU alone."""
    names = TINY if part.is_rehearsal else slowest(part.folder) or USUAL
    program = None if part.is_rehearsal else tool("ncu")
    for name in names:
        part.step(name, lambda name=name: _run(part, name, program))
    if program is None and not part.result.failures and part.result.status != CUT:
        part.result.status, part.result.reason = NOT_RUN, "ncu looks at no CPU; its rows ran alone"


def slowest(folder: Path) -> list[str]:
    """The names of the rows that are the smallest share of a copy's rate, one of each op."""
    rates = results.read(folder, "rates")
    rows = [it for it in (rates.rows.get(BENCHMARK, []) if rates else []) if it["theirs"] == COPY]
    by_op: dict[str, str] = {}
    for row in sorted(rows, key=lambda it: it["ratio"]):
        by_op.setdefault(row["name"].split()[0], row["name"])
    return [*by_op.values()][:ROWS]


def _run(part: Part, name: str, program: str | None) -> None:
    log = part.folder / f"ncu-{name.replace(' ', '-')}.csv"
    options = [program, "--csv", "--profile-from-start", "off", "--metrics", ",".join(METRICS)] if program else []
    command = [sys.executable, "-m", "tools.gpu_check.op_calls", "row", part.device, name]
    ended = processes.run([*options, *command], log, part.seconds_left(), folder=str(ROOT))
    if ended.status is None:
        part.result.status, part.result.reason = CUT, f"{name} was not done after {ended.seconds:.0f} s"
    elif "ERR_NVGPUCTRPERM" in log.read_text(errors="replace"):
        part.result.skipped.append("ncu may not read this GPU's counters (ERR_NVGPUCTRPERM)")
    elif ended.status != 0:
        part.result.fail(f"{name}: status {ended.status}: {processes.last_lines(log)}")
    else:
        part.result.notes += [f"{name}: {line}" for line in figures(log)]


def figures(log: Path) -> Iterator[str]:
    """A line for each kernel in what ncu prints: its name and the metrics."""
    lines = log.read_text(errors="replace").splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    kernels: dict[str, list[str]] = {}
    for row in csv.DictReader(lines[start:]):
        metric = row.get("Metric Name") or ""
        if metric in METRICS:
            unit = row.get("Metric Unit") or ""
            value = f"{row['Metric Value']} {unit if metric.startswith('gpu__time') else METRICS[metric]}"
            kernels.setdefault(f"{row['ID']} {row['Kernel Name'].partition('(')[0]}", []).append(value)
    for name, values in kernels.items():
        yield f"{name.partition(' ')[2]}: {', '.join(values)}"
