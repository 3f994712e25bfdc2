"""Part `sanitizer`: ten ops under compute-sanitizer, by its tools memcheck and racecheck."""

import re
import sys
from pathlib import Path

from . import processes
from .environment import ROOT, tool
from .results import CUT, NOT_RUN, Part

# Calls of CUDA that torch tries, and which may fail, are no errors of kernels.
TOOLS = {"memcheck": ["--report-api-errors", "no"], "racecheck": []}
OPS = (
    *("rms_norm", "layer_norm", "add_rms_norm", "cross_entropy", "rotary"),
    *("bias_gelu", "swiglu", "masked_softmax", "convert_", "adamw_step_"),
)
_PROBLEM = re.compile(r"=+ +((?:Invalid|Error|Warning|Race reported|Program hit|Uninitialized|Misaligned|Leaked)\b.*)")
_SUMMARY = re.compile(r"=+ +(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")


def run(part: Part) -> None:
    """Run both tools; on a CPU the ops alone."""
    command = [sys.executable, "-m", "tools.gpu_check.op_calls", "cases", part.device, *OPS]
    program = None if part.is_rehearsal else tool("compute-sanitizer")
    if program is None:
        part.step("ops alone", lambda: _run(part, "ops alone", command, []))
        if not part.result.failures:
            part.result.status, part.result.reason = NOT_RUN, "compute-sanitizer looks at no CPU; its ops ran alone"
        return
    for name in TOOLS:
        options = [program, "--tool", name, "--error-exitcode", "9", "--print-limit", "20", *TOOLS[name]]
        part.step(name, lambda name=name, options=options: _run(part, name, command, options))


def _run(part: Part, name: str, command: list[str], options: list[str]) -> None:
    log = part.folder / f"{name.replace(' ', '-')}.log"
    left = part.seconds_left() / (2 if name == "memcheck" else 1)
    ended = processes.run([*options, *command], log, left, folder=str(ROOT))
    if ended.status is None:
        part.result.status, part.result.reason = CUT, f"{name} was not done after {ended.seconds:.0f} s"
        return
    lines, count = problems(log)
    for line in lines:
        part.result.fail(f"{name}: {line}")
    if count is not None:
        part.result.notes.append(f"{name}: {count} problems in {len(OPS)} ops, both passes, in {ended.seconds:.0f} s")
    if ended.status != 0 and not lines:
        part.result.fail(f"{name}: status {ended.status}: {processes.last_lines(log)}")


def problems(log: Path) -> tuple[list[str], int | None]:
    """The errors that a tool has found, a line for each kind, and how many it counts; None without a summary."""
    text = log.read_text(errors="replace")
    lines = list(dict.fromkeys(match[1].strip() for match in _PROBLEM.finditer(text)))
    summary = _SUMMARY.search(text)
    count = None if summary is None else int(summary[1] or summary[2])
    return (lines or [f"{count} problems"] if count else []), count
