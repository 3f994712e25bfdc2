"""Callback: hooks of a program at the points of a training; and RunLog, which writes the log of a run."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..._regular_file import read_regular
from ...config.hiding import hide_values
from ...errors import RunDirError
from ..runs.environment import write_environment
from ..runs.logs import DONE, FAILED, LOG_NAME, STOPPED, LogFile
from .formats import describe

if TYPE_CHECKING:
    from ..checkpoint.checkpointer import Checkpoint
    from ..learner.learner import Learner


class Callback:
    """Is called at each point of a training; each method does nothing unless a subclass defines it.

    An exception in a method ends the training. What the callback keeps belongs to a checkpoint if it has `state_dict()`
    and `load_state_dict(state)` of plain values and tensors. It is found again by the name of its class, and among
    several of one class by its attribute `name`, a text, or else by its number among them.

    Example:
        >>> from burnlike.train import Callback
        >>> class Losses(Callback):
        ...     def on_metrics(self, learner, line):
        ...         print(line["split"], line["loss"])
    """

    def on_fit_start(self, learner: "Learner[Any]") -> None:
        """The training begins, or goes on, after `learner.step` of `learner.total_steps` steps."""

    def on_epoch_start(self, learner: "Learner[Any]", epoch: int) -> None:
        """An epoch begins, or goes on; the first has the number 0."""

    def on_batch_start(self, learner: "Learner[Any]", batch: Any) -> None:
        """The batch is on the device, and nothing has been computed of it."""

    def on_backward_end(self, learner: "Learner[Any]") -> None:
        """The gradients of a step are complete, in `.grad`; they are clipped by the optimizer's step."""

    def on_step_end(self, learner: "Learner[Any]") -> None:
        """An optimizer step was taken; `learner.step` counts it."""

    def on_valid_start(self, learner: "Learner[Any]", split: str) -> None:
        """A split is about to be evaluated."""

    def on_metrics(self, learner: "Learner[Any]", line: Mapping[str, Any]) -> None:
        """A line of metrics: `step`, `epoch`, `split`, `loss` and so on, as in `metrics.jsonl`."""

    def on_checkpoint(self, learner: "Learner[Any]", checkpoint: "Checkpoint") -> None:
        """A checkpoint is on the disk, whole."""

    def on_epoch_end(self, learner: "Learner[Any]", epoch: int) -> None:
        """An epoch has ended, validation included."""

    def on_note(self, learner: "Learner[Any]", text: str) -> None:
        """Something else that is worth a line."""

    def on_fit_end(self, learner: "Learner[Any]") -> None:
        """The training has ended as planned, or was stopped after a checkpoint."""

    def on_exception(self, learner: "Learner[Any]", error: BaseException) -> None:
        """The training ends with an exception, which is raised after this."""


class Callbacks:
    """Calls several callbacks; a point that none of them defines costs one look-up."""

    def __init__(self, callbacks: "list[Callback]") -> None:
        self.all = callbacks
        self._methods: dict[str, list[Callable[..., None]]] = {
            point: [getattr(it, point) for it in callbacks if getattr(type(it), point, None) is not method]
            for point, method in vars(Callback).items()
            if point.startswith("on_")
        }

    def call(self, point: str, *values: Any) -> None:
        for method in self._methods[point]:
            method(*values)

    def state_dict(self) -> dict[str, Any]:
        return {name: value.state_dict() for name, value in self._stateful().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give each its saved state; one that was not there begins anew."""
        for name, callback in self._stateful().items():
            if name in state:
                callback.load_state_dict(state[name])

    def _stateful(self) -> dict[str, Any]:
        stateful: dict[str, Any] = {}
        for callback in self.all:
            if hasattr(callback, "state_dict") and hasattr(callback, "load_state_dict"):
                name, chosen = type(callback).__qualname__, getattr(callback, "name", None)
                name = f"{name} {chosen}" if isinstance(chosen, str) else name
                number = sum(it.partition("#")[0] == name for it in stateful)
                stateful[f"{name}#{number}" if number else name] = callback
        return stateful


class RunLog(Callback):
    """Logs in the run's directory the environment it was started in, its events, and how it ended.

    `burnlike runs` and `burnlike report` read both files. A learner without a directory writes nothing.
    """

    def __init__(self) -> None:
        self._log: LogFile | None = None
        self._config = ""

    def on_fit_start(self, learner: "Learner[Any]") -> None:
        if learner.run is None:
            return
        self._log = LogFile(learner.run.path / LOG_NAME)
        try:
            changes = write_environment(learner.run.path)
        except OSError as error:
            why = error.strerror or error
            raise RunDirError(f"{learner.run.path}: the environment can't be written: {why}") from error
        # For `hide_values`: messages may repeat what the config got from the environment, such as a key of a logger.
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
        if self._log is None:
            return
        is_error = isinstance(error, Exception)
        reason = f"{type(error).__name__}: {error}" if is_error else str(error)
        with suppress(RunDirError):  # a full disk must not hide the error itself
            self._log.end(FAILED if is_error else STOPPED, hide_values(reason, self._config))

    def _write(self, text: str) -> None:
        if self._log is not None:
            self._log.write(hide_values(text, self._config))
