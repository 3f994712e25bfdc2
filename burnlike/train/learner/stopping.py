"""When a training ends before its last epoch: the metric gets no better, or a signal came."""

import math
import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any, Self

from .configs import EarlyStoppingConfig


class MetricEarlyStoppingStrategy:
    """Says after each epoch whether to stop: the metric has had no better value for some epochs.

    Only a value that is better by more than `min_delta` counts; NaN and the worst infinity never do (Burn's
    MetricEarlyStoppingStrategy). The first epoch counts as the best one until there is such a value.

    Example:
        >>> stopping = MetricEarlyStoppingStrategy(EarlyStoppingConfig(n_epochs=2))
        >>> [stopping.should_stop(epoch, loss) for epoch, loss in enumerate([0.5, 0.4, 0.6, 0.4], start=1)]
        [False, False, False, True]
    """

    def __init__(self, config: EarlyStoppingConfig) -> None:
        """Make a strategy without history; a ConfigError if a metric other than the loss has no direction."""
        self.config = config.directed()
        self.best_value: float | None = None
        self.best_epoch = 1

    def should_stop(self, epoch: int, value: float) -> bool:
        """True if the training is to stop after an epoch, from 1, with the metric's value of the whole epoch."""
        best, sign = self.best_value, 1 if self.config.direction == "highest" else -1
        if sign * value > -math.inf if best is None else sign * (value - best) > self.config.min_delta:
            self.best_value, self.best_epoch = value, epoch
            return False
        return epoch > self.config.warmup_epochs and epoch - self.best_epoch >= self.config.n_epochs

    def state_dict(self) -> dict[str, Any]:
        return {"best_value": self.best_value, "best_epoch": self.best_epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best_value, self.best_epoch = state["best_value"], int(state["best_epoch"])


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


class Interrupted(BaseException):
    """The run was stopped by a `signal`, for which shells expect the status 128 + signal; no error, as
    KeyboardInterrupt is none.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal = signal_number


class EarlySignals:
    """Keeps a SIGUSR1 that comes while a program starts, for the first Interrupter; without it, it would kill.

    SIGINT and SIGTERM end the program then, as there is nothing to finish yet.
    """

    came = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGUSR1, self._keep)
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, self._previous)

    def _keep(self, signal_number: int, frame: FrameType | None) -> None:
        self.came = True


class Interrupter:
    """Notes the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 for the training loop to see; the second one stops at once.

    Used as a context manager. Outside the main thread, where Python handles no signals, it only offers `stop`.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # A signal that is ignored stays so: `nohup` ignores SIGHUP.
            numbers = [it for it in _SIGNALS if signal.getsignal(it) != signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._handle) for number in numbers}
            # The EarlySignals around it is told by the handler that it has put there, a method of it.
            early = getattr(self._previous.get(signal.SIGUSR1), "__self__", None)
            if isinstance(early, EarlySignals) and early.came:
                self._signal = signal.SIGUSR1
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    @property
    def asked(self) -> int | None:
        """The number of the signal that asked for a stop."""
        return self._signal

    @property
    def stopped(self) -> bool:
        return self._signal is not None

    def stop(self, signal_number: int = signal.SIGINT) -> None:
        """Ask for a stop after the current step, as if the signal had come."""
        self._signal = signal_number

    def check(self) -> None:
        """Raise Interrupted if a stop was asked for."""
        if self._signal is not None:
            raise Interrupted(self._signal)

    def _handle(self, signal_number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            raise Interrupted(signal_number)
        self._signal = signal_number
