"""Ends a run cleanly on SIGINT, SIGTERM and SIGUSR1, which SLURM sends before the time of a job is up."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Interrupted(BaseException):
    """The run was stopped by a signal; like KeyboardInterrupt, not an error.

    Attributes:
        signal: the signal's number; shells expect the exit status 128 + this.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, self._previous)

    def _keep(self, signal_number: int, frame: FrameType | None) -> None:
        self.came = True


class Interrupter:
    """Notes the first SIGINT, SIGTERM or SIGUSR1 for the training loop to see; the second one stops at once.

    Used as a context manager. Outside the main thread, where Python handles no signals, it only offers `stop`.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
            early = getattr(self._previous[signal.SIGUSR1], "__self__", None)
            if isinstance(early, EarlySignals) and early.came:
                self._signal = signal.SIGUSR1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
        """Stop here if a stop was asked for.

        Raises:
            Interrupted: it was.
        """
        if self._signal is not None:
            raise Interrupted(self._signal)

    def _handle(self, signal_number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            raise Interrupted(signal_number)
        self._signal = signal_number
