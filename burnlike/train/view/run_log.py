"""RunLog: writes `environment.json` and `log.txt` of a run."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..._regular_file import read_regular
from ...config.hiding import hide_values
from ...errors import RunDirError
from ..runs.environment import write_environment
from ..runs.log_file import DONE, FAILED, LOG_NAME, STOPPED, LogFile
from .callback import Callback
from .lines import describe

if TYPE_CHECKING:
    from ..checkpoint.checkpointer import Checkpoint
    from ..learner.learner import Learner


class RunLog(Callback):
    """Says in the run's directory what it was started with, what happened when, and how it ended.

    `burnlike runs` and `burnlike report` read both files. A learner without a directory writes nothing.
    """

    def __init__(self) -> None:
        self._log: LogFile | None = None
        self._config = ""

    def on_fit_start(self, learner: "Learner[Any]") -> None:
        """Write the environment, and what has changed in it since the run began."""
        if learner.run is None:
            return
        self._log = LogFile(learner.run.path / LOG_NAME)
        try:
            changes = write_environment(learner.run.path)
        except OSError as error:
            raise RunDirError(
                f"{learner.run.path}: the environment can't be written: {error.strerror or error}"
            ) from error
        with suppress(OSError):  # a program may train without a config
            self._config = read_regular(learner.run.config).decode("utf-8", "replace")
        self._log.start(learner.step, learner.total_steps)
        for name, (before, now) in changes.items():
            self._log.write(f"changed since the run began: {name}: {before} -> {now}")

    def on_metrics(self, learner: "Learner[Any]", line: Mapping[str, Any]) -> None:
        self._write(describe(line, learner.total_steps))

    def on_note(self, learner: "Learner[Any]", text: str) -> None:
        self._write(text)

    def on_checkpoint(self, learner: "Learner[Any]", checkpoint: "Checkpoint") -> None:
        self._write(f"checkpoint {checkpoint.path.name}")

    def on_fit_end(self, learner: "Learner[Any]") -> None:
        if self._log is not None:
            self._log.end(DONE)

    def on_exception(self, learner: "Learner[Any]", error: BaseException) -> None:
        """The last line, with the error; a signal is none."""
        if self._log is None:
            return
        is_error = isinstance(error, Exception)
        reason = f"{type(error).__name__}: {error}" if is_error else str(error)
        with suppress(RunDirError):  # a full disk must not hide the error itself
            self._log.end(FAILED if is_error else STOPPED, hide_values(reason, self._config))

    def _write(self, text: str) -> None:
        if self._log is not None:
            self._log.write(hide_values(text, self._config))
