"""Clock: how long a training has been running, and how long it will."""

import time


class Clock:
    """Measures from the start of this process's part of a run."""

    def __init__(self) -> None:
        self.start(0, 0)

    def start(self, step: int, total_steps: int) -> None:
        """Begin after `step` of `total_steps` steps."""
        self._first, self._total = step, total_steps
        self._started_at = time.monotonic()

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_at

    def left(self, step: int) -> float | None:
        """Seconds until the end at the mean speed so far, validation included; None before the first step."""
        done = step - self._first
        return self.elapsed() / done * (self._total - step) if done > 0 else None
