"""What each process of a run did: its rate, how long it waited for others, and how much of its device it used."""

from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple

from ...runs.run_files import RunFiles
from ..formats import RATE, format_value
from .chart import Html, grid, tag

PEAK_TFLOPS = {
    "A100": 312.0,
    "H100 PCIe": 756.0,
    "H100": 989.0,
    "H200": 989.0,
    "B200": 2250.0,
    "L40S": 362.0,
    "L4": 121.0,
    "A10G": 70.0,
}
"""Of dense products in 16 bits, as NVIDIA's data sheets say; the first name that a device's contains counts."""
_NOTE = (
    "Waiting: the share of a step between the beginning of an exchange here and that of the last process, as torch's"
    " flight recorder notes them; the time that the data take is not in it."
)
_WORK_NOTE = (
    " FLOPs: three times those that `burnlike check --shapes` counts for a forward pass; not what is computed again."
)


class Work(NamedTuple):
    """Operations on floats that a training takes for one value, and what a device does in a second at most.

    Attributes:
        flops: of one value, by the unit of rates: `tokens`, `items`.
        peak_tflops: of one device; None where it is not known.
    """

    flops: Mapping[str, float]
    peak_tflops: float | None = None


def peak_of(run: RunFiles) -> float | None:
    """The TFLOP/s of a device of the run in 16 bits; None for other trainings and devices."""
    devices = run.environment.get("devices")
    if run.config.get("training.precision") not in ("bfloat16", "float16") or not isinstance(devices, list):
        return None
    names = [str(it) for it in devices]
    return next((peak for name, peak in PEAK_TFLOPS.items() if names and name in names[0]), None)


def processes(run: RunFiles, work: Work | None) -> list[Html]:
    """A row for each process of the run's last part; nothing of a single one."""
    if not run.ranks:
        return []
    rates = next((name for name in run.ranks[-1] if name.endswith(RATE)), "")
    count = len(run.ranks[-1].get(rates, ()))
    looks = [it for it in run.ranks if len(it.get(rates, ())) == len(it.get("waiting", ())) == count]
    if not count or not looks:
        return []
    unit = rates.removesuffix(RATE)
    of_value = None if work is None else work.flops.get(unit)
    peak = None if work is None else work.peak_tflops
    hosts = looks[-1].get("host", ())
    rows: list[list[object]] = []
    for rank in range(count):
        rate, wait = (fmean(it[name][rank] or 0.0 for it in looks) for name in (rates, "waiting"))
        row: list[object] = [str(rank), hosts[rank] if rank < len(hosts) else "-", format_value(rate), f"{wait:.1%}"]
        if of_value is not None:
            row.append(f"{rate * of_value / 1e12:.3g}")
            row += [] if peak is None else [f"{rate * of_value / 1e12 / peak:.1%}"]
        rows.append(row)
    heads: list[object] = ["rank", "host", f"{unit}/s", "waiting"]
    heads += [] if of_value is None else ["TFLOP/s", *([] if peak is None else ["MFU"])]
    note = _NOTE + ("" if of_value is None else _WORK_NOTE)
    return [grid(heads, rows, class_="numbers"), tag("p", note, class_="note")]
