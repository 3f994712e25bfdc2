"""LrScheduler: a learning rate for each step."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

Number = int | float


class LrScheduler(ABC):
    """Hands out a learning rate a step; the first is the initial rate."""

    @abstractmethod
    def step(self) -> float:
        """Advance by one optimizer step and return its learning rate."""

    @abstractmethod
    def to_record(self) -> dict[str, Number]:
        """The state, as plain numbers."""

    @abstractmethod
    def load_record(self, record: Mapping[str, Number]) -> Self:
        """Continue from a saved state; returns the scheduler."""
