"""Directions of metrics: whether high or low values are good, by the configs of a run or else the metric's name."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...config import MetricConfig
from ...config.registry import imported, snake_tag
from . import configs as configs  # whose types are then imported

Directions = Mapping[str, bool | None]
"""Whether high values are good, by the names of metrics and of single values of them; None: not known."""

_LOW = re.compile("loss|errors?|perplexity|ppl|mae|mse|rmse|mape|nll|wer|cer|distance|fid|lpips")
"""Words of names of metrics whose low values are good."""


def metric_of(value: str, metrics: Iterable[str]) -> str | None:
    """The metric that has a value of this name, among the names of metrics: `mae` has `mae` and `mae.price`."""
    return max((it for it in metrics if value == it or value.startswith(f"{it}.")), key=len, default=None)


def high_is_good(value: str, directions: Directions) -> bool | None:
    """True if high values of this name are good; None where nothing says it."""
    return False if value == "loss" else directions.get(metric_of(value, directions) or "")


def low_is_good(value: str, directions: Directions) -> bool:
    """True if low values of this name are good; where the directions don't say it, its words do, such as `error`."""
    high = high_is_good(value, directions)
    return any(map(_LOW.fullmatch, re.split(r"[\W_]+", value.lower()))) if high is None else not high


def directions_of(metrics: Mapping[str, Any], chosen: Iterable[tuple[Any, Any]] = ()) -> Directions:
    """Directions that metrics or their configs have, and those of pairs of a value and its `direction` or None."""
    of_metrics = {name: getattr(metric, "higher_is_better", None) for name, metric in metrics.items()}
    return of_metrics | {str(value): direction == "highest" for value, direction in chosen if direction is not None}


def directions_in(config: Mapping[str, Any]) -> Directions:
    """Directions in the values of a run's config by their paths; types that are not imported have none."""
    types = imported(MetricConfig)
    metrics: dict[str, Any] = {}
    for path, tag in config.items():
        if re.fullmatch(r"metrics\[\d+\]\.type", path) and isinstance(tag, str) and tag in types:
            metrics[str(config.get(f"{path.removesuffix('type')}name") or snake_tag(types[tag]))] = types[tag]
    bests = (f"training.{best}" for best in ("early_stopping", "keep_best"))
    return directions_of(metrics, [(config.get(f"{it}.metric"), config.get(f"{it}.direction")) for it in bests])
