"""Numbers, times and lines of metrics as text, and the meaning of a line's values."""

import math
from collections.abc import Mapping
from typing import Any

MINUTE, HOUR, DAY = 60, 3600, 86400


def format_eta(seconds: float) -> str:
    """A duration in its largest unit, as Burn writes it.

    Example:
        >>> format_eta(61), format_eta(7300)
        ('1 min', '2 hours')
    """
    for size, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "min"), (1, "sec")):
        count = int(seconds // size)
        if count or size == 1:
            return f"{count} {name}{'s' * (count != 1)}"
    raise AssertionError("the last unit fits any duration")


def format_elapsed(seconds: float) -> str:
    """A duration as a clock shows it.

    Example:
        >>> format_elapsed(65), format_elapsed(90061)
        ('1:05', '1d 1:01:01')
    """
    whole = int(seconds)
    days, hours, minutes = whole // DAY, whole % DAY // HOUR, whole % HOUR // MINUTE
    clock = f"{hours}:{minutes:02d}" if whole >= HOUR else str(minutes)
    return f"{f'{days}d ' * (days > 0)}{clock}:{whole % MINUTE:02d}"


def format_value(value: float | None) -> str:
    """A number of any size in a few characters; `-` for none.

    Example:
        >>> [format_value(it) for it in (2.34567, 0.0003, 123456.0, None)]
        ['2.3457', '3.00e-04', '123,456', '-']
    """
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or math.isinf(value):
        return f"{value:.0f}"
    size = abs(value)
    if size < 0.001 or size >= 1e9:
        return f"{value:.2e}"
    if size >= 1000 or (value == int(value) and size >= 10):
        return f"{value:,.0f}"
    return f"{value:.{4 if size < 10 else 2}f}"


def format_bytes(count: float) -> str:
    """A number of bytes.

    Example:
        >>> format_bytes(1_500_000_000)
        '1.5 GB'
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.{1 if count < 10 * size else 0}f} {unit}"
    return f"{count:.0f} bytes"


NO_VALUES = ("step", "epoch", "split", "time")
"""What a line has beside its values."""
RATE = "_per_s"
"""How the names of rates end."""
_LOWER_IS_BETTER = (
    "loss", "error", "perplexity", "mae", "mse", "rmse", "nll", "wer", "cer", "hamming", "distance", "fid", "lpips"
)  # fmt: skip


def values_of_line(line: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: value for name, value in line.items() if name not in NO_VALUES}


def is_quality(name: str) -> bool:
    """True if a value says how good the model is: rates of work and learning rates do not."""
    return name != "lr" and not name.endswith(RATE)


def lower_is_better(name: str) -> bool:
    """True if low values of a metric are the good ones, by its name."""
    return any(word in name.lower() for word in _LOWER_IS_BETTER)


def describe(metrics: Mapping[str, Any], total_steps: int) -> str:
    """A line of metrics as text."""
    split = {"train": "", "valid": "validation "}.get(metrics["split"], f"{metrics['split']} ")
    values: list[str] = []
    for key, value in values_of_line(metrics).items():
        name = f"{split}{key}"
        if value is None:
            values.append(f"{name} -")
        elif name.endswith(RATE):
            values.append(f"{value:,.0f} {name.removesuffix(RATE)}/s")
        else:
            values.append(f"{name} {value:.1e}" if name == "lr" else f"{name} {value:.4f}")
    step = f"step {metrics['step']:>{len(str(total_steps))}}/{total_steps}"
    return "  ".join([step, f"epoch {metrics['epoch'] + 1}", *values])
