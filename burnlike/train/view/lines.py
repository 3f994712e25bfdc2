"""Lines of metrics as text, and what the values in them are."""

from collections.abc import Mapping
from typing import Any

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
    """Whether a value says how good the model is: rates of work and learning rates do not."""
    return name != "lr" and not name.endswith(RATE)


def lower_is_better(name: str) -> bool:
    """Whether low values of a metric are the good ones, by its name."""
    return any(word in name.lower() for word in _LOWER_IS_BETTER)


def describe(metrics: Mapping[str, Any], total_steps: int) -> str:
    split = {"train": "", "valid": "validation "}.get(metrics["split"], f"{metrics['split']} ")
    values = [describe_value(f"{split}{name}", value) for name, value in values_of_line(metrics).items()]
    step = f"step {metrics['step']:>{len(str(total_steps))}}/{total_steps}"
    return "  ".join([step, f"epoch {metrics['epoch'] + 1}", *values])


def describe_value(name: str, value: float | None) -> str:
    """A metric with its name: rates as a number a second, learning rates with an exponent."""
    if value is None:
        return f"{name} -"
    if name.endswith(RATE):
        return f"{value:,.0f} {name.removesuffix(RATE)}/s"
    return f"{name} {value:.1e}" if name == "lr" else f"{name} {value:.4f}"
