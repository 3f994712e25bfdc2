"""Early stopping: ends a training that does not get better."""

from collections.abc import Mapping
from typing import Any

from .configs import EarlyStoppingConfig


class MetricEarlyStoppingStrategy:
    """Says after each epoch whether to stop: the metric has had no better value for some epochs.

    Only a value that is better by more than `min_delta` counts; NaN never does (Burn's MetricEarlyStoppingStrategy).

    Example:
        >>> stopping = MetricEarlyStoppingStrategy(EarlyStoppingConfig(n_epochs=2))
        >>> [stopping.should_stop(epoch, loss) for epoch, loss in enumerate([0.5, 0.4, 0.6, 0.4], start=1)]
        [False, False, False, True]
    """

    def __init__(self, config: EarlyStoppingConfig) -> None:
        """Make a strategy that has seen no value.

        Raises:
            ConfigError: the config of another metric than the loss says no direction.
        """
        self.config = config.directed()
        self.best_value: float | None = None
        self.best_epoch = 0

    def should_stop(self, epoch: int, value: float) -> bool:
        """Whether to stop after an epoch.

        Args:
            epoch: its number, from 1.
            value: of the metric, of the whole epoch.
        """
        if self._is_better(value):
            self.best_value, self.best_epoch = value, epoch
            return False
        return epoch > self.config.warmup_epochs and epoch - self.best_epoch >= self.config.n_epochs

    def _is_better(self, value: float) -> bool:
        if self.best_value is None:
            return value == value
        gain = self.best_value - value if self.config.direction == "lowest" else value - self.best_value
        return gain > self.config.min_delta

    def state_dict(self) -> dict[str, Any]:
        return {"best_value": self.best_value, "best_epoch": self.best_epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best_value, self.best_epoch = state["best_value"], int(state["best_epoch"])
