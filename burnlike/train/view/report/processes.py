"""The processes of a run: rate of each, time it waited for others, and how much of its device it used."""

import re
from statistics import fmean
from typing import NamedTuple

from ...runs.run_files import RunFiles
from ..formats import RATE, format_value
from .chart import Html, grid, tag

_PEAKS = {
    r"A100(-(SXM4|PCIE)-\d+GB| 80GB PCIe)": 312.0,
    r"A10": 125.0,
    r"A10G": 70.0,
    r"L4": 121.0,
    r"L40": 181.0,
    r"L40S": 362.0,
    r"H100 80GB HBM3": 989.0,
    r"H100 PCIe": 756.0,
    r"H(100|200) NVL": 835.0,
    r"H200|GH200 .*": 989.0,
    r"B200": 2250.0,
}
"""TFLOP/s of dense products in 16 bits, as NVIDIA's data sheets say, by whole names of devices: a part of one (MIG) is
none of them."""
_NOTE = (
    "Waiting: the share of a step between the beginning of an exchange here and that of the last process, as torch's"
    " flight recorder notes them; the time that the data take is not in it."
)
_WORK_NOTE = (
    " TFLOP/s: the products of the model's forward and backward pass, divided equally among the processes. Attention"
    " counts whole, with what a mask hides; what activation_checkpointing computes again does not count, nor gradients"
    " of what is not trained (PaLM, Chowdhery et al. 2022, appendix B)."
)


class Work(NamedTuple):
    """Floating-point operations of a training, and the peak rate of a device.

    Attributes:
        flops: of a process in a step; None where it is not known.
        peak_tflops: of one device; None where it is not known.
        problem: why the operations are not known.
    """

    flops: float | None
    peak_tflops: float | None = None
    problem: str = ""


def peak_tflops_of(run: RunFiles) -> float | None:
    """The TFLOP/s of a device of the run in 16 bits; None for other trainings and devices."""
    values, devices = run.config.get, run.environment.get("devices")
    types = values("training.precision"), values("distributed.precision.params"), values("model.dtype")
    is_16_bits = any(it in ("bfloat16", "float16") for it in types) and not values("training.float8.recipe")
    if not is_16_bits or values("device") == "cpu" or not isinstance(devices, list) or not devices:
        return None
    name = str(devices[0]).removeprefix("NVIDIA ")
    return next((peak for pattern, peak in _PEAKS.items() if re.fullmatch(pattern, name)), None)


def count_of(run: RunFiles) -> int:
    """How many processes a run has had in its last part."""
    return len(run.ranks[-1].get(_rates(run), ()))


def _rates(run: RunFiles) -> str:
    return next((name for name in run.ranks[-1] if name.endswith(RATE)), "")


def processes(run: RunFiles, work: Work | None) -> list[Html]:
    """A row for each process of the run's last part; nothing of a single one."""
    if not run.ranks:
        return []
    rates, count = _rates(run), count_of(run)
    looks = [it for it in run.ranks if len(it.get(rates, ())) == len(it.get("waiting", ())) == count]
    if not count or not looks:
        return []
    hosts = looks[-1].get("host", ())
    times = [it["seconds_per_step"] for it in looks if "seconds_per_step" in it]
    done: list[object] = []
    note = _NOTE
    heads: list[object] = ["rank", "host", f"{rates.removesuffix(RATE)}/s", "waiting"]
    if work is not None and work.problem:
        note += f" FLOPs are not known: {work.problem}"
    if work is not None and work.flops is not None and times:
        tflops = work.flops / fmean(times) / 1e12
        done = [f"{tflops:.3g}", *([] if work.peak_tflops is None else [f"{tflops / work.peak_tflops:.1%}"])]
        heads += ["TFLOP/s", "MFU"][: len(done)]
        note += _WORK_NOTE
        if work.peak_tflops is not None:
            note += f" MFU: their share of {work.peak_tflops:g} TFLOP/s."
    rows: list[list[object]] = []
    for rank in range(count):
        rate, wait = (fmean(it[name][rank] or 0.0 for it in looks) for name in (rates, "waiting"))
        host = hosts[rank] if rank < len(hosts) else "-"
        rows.append([str(rank), host, format_value(rate), f"{wait:.1%}", *done])
    return [grid(heads, rows, class_="numbers"), tag("p", note, class_="note")]
