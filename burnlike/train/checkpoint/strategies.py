"""Choice of the checkpoints that are written and stay: the last ones, the best one, or both (Burn's strategies)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from ...errors import ArgumentError


class Save(NamedTuple):
    """Write the checkpoint."""


class Delete(NamedTuple):
    """Remove the checkpoint of this number."""

    number: int


CheckpointingAction = Save | Delete


class CheckpointingStrategy(Protocol):
    """Decides at each moment at which a checkpoint could be written; `kept` are the numbers of those that it wants."""

    kept: list[int]

    def checkpointing(self, number: int, values: Mapping[str, float]) -> list[CheckpointingAction]:
        """Actions for the growing number, a step or an epoch, and metrics since the last call, as `valid.loss`."""
        ...


class KeepLastNCheckpoints:
    """Keeps the last ones.

    Example:
        >>> strategy = KeepLastNCheckpoints(2)
        >>> [strategy.checkpointing(number, {}) for number in (1, 2, 3)][-1]
        [Save(), Delete(number=1)]
    """

    def __init__(self, num_keep: int) -> None:
        self.num_keep = num_keep
        self.kept: list[int] = []

    def checkpointing(self, number: int, values: Mapping[str, float]) -> list[CheckpointingAction]:
        kept = [*self.kept, number]
        old, self.kept = kept[: -self.num_keep], kept[-self.num_keep :]
        return [Save(), *map(Delete, old)]


class MetricCheckpointingStrategy:
    """Keeps the one with the best value of a metric, and never one with NaN or the worst infinity; of equal values that
    with the lowest loss of the same split, and else the first.
    """

    def __init__(self, metric: str, direction: Literal["lowest", "highest"] | None = None) -> None:
        """Make a strategy for a metric such as `valid.loss`, for which alone `direction` may be left out."""
        if direction is None:
            if metric.rpartition(".")[2] != "loss":
                raise ArgumentError(
                    f"expected direction='lowest' or 'highest' for {metric}: which of its values are good"
                )
            direction = "lowest"
        self.metric = metric
        self.direction = direction
        self.best: float | None = None
        self.loss: float | None = None
        self.kept: list[int] = []
        self._loss_name = f"{metric.partition('.')[0]}.loss"

    def checkpointing(self, number: int, values: Mapping[str, float]) -> list[CheckpointingAction]:
        if not self.is_better(values):
            return []
        old, self.kept = self.kept, [number]
        self.best, self.loss = values[self.metric], values.get(self._loss_name)
        return [*map(Delete, old), Save()]

    def is_better(self, values: Mapping[str, float]) -> bool:
        """True if the values have the best one of the metric so far."""
        value = values.get(self.metric)
        if value is None or math.isnan(value) or value == (math.inf if self.direction == "lowest" else -math.inf):
            return False
        if value == self.best:
            loss = values.get(self._loss_name)
            return loss is not None and self.loss is not None and loss < self.loss
        return self.best is None or (value < self.best if self.direction == "lowest" else value > self.best)

    def state_dict(self) -> dict[str, Any]:
        return {"kept": list(self.kept), "best": self.best, "loss": self.loss}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.kept, self.best, self.loss = list(state["kept"]), state["best"], state.get("loss")


class ComposedCheckpointingStrategy:
    """Keeps what any of several strategies keeps."""

    def __init__(self, strategies: Sequence[CheckpointingStrategy]) -> None:
        self.strategies = list(strategies)
        self.kept: list[int] = []

    def checkpointing(self, number: int, values: Mapping[str, float]) -> list[CheckpointingAction]:
        actions = [action for it in self.strategies for action in it.checkpointing(number, values)]
        is_saved = Save() in actions
        wanted = {number for it in self.strategies for number in it.kept}
        before = [*self.kept, *([number] if is_saved else [])]
        self.kept = [it for it in before if it in wanted]
        return [*([Save()] if is_saved else []), *(Delete(it) for it in before if it not in wanted)]
