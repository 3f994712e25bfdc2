"""Logger: what callbacks that send metrics elsewhere have in common."""

import importlib.util
import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...._atomic import replace_file
from ...._regular_file import read_regular
from ....config.document import parse_plain
from ....errors import ConfigError
from ...runs.logs import DONE, FAILED, STOPPED, Ending
from ...runs.run_files import flattened
from ..callback import Callback
from ..formats import values_of_line

if TYPE_CHECKING:
    from ...learner.learner import Learner


class Logger(Callback):
    """Sends each line of metrics, its values by names such as `valid/loss`.

    A subclass defines `open`, `send` and `close`. What goes wrong in `open` ends the training before it begins; later
    the program at the other end may fail, which is warned of once, and the training goes on without the logger.

    Attributes:
        title: what messages call the program.
        package: what has to be installed, and `extra`, which installs it; empty for a logger that needs nothing.
    """

    title = ""
    package = ""
    extra = ""

    def __init__(self) -> None:
        """Make a logger that has opened nothing; a ConfigError if the package is not installed."""
        if self.package and importlib.util.find_spec(self.package) is None:
            raise ConfigError(
                f"loggers: {self.title} needs the package {self.package}, which is not installed:"
                f" pip install 'burnlike[{self.extra}]'"
            )
        self._is_open = False

    def open(self, run: Path | None, step: int) -> None:
        """Begin, or go on after `step` steps; the run may have no directory.

        What was sent of later steps is from before the checkpoint that the run has gone back to. A ConfigError says
        that the program at the other end refuses or does not answer, or that there is no place to write to.
        """
        raise NotImplementedError

    def send(self, values: Mapping[str, float], line: Mapping[str, Any]) -> None:
        """Send the values of a line."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send what waits to be sent."""

    def close(self, ending: Ending) -> None:
        """Send the rest, and end."""
        raise NotImplementedError

    def on_fit_start(self, learner: "Learner[Any]") -> None:
        if not learner.parallel.is_main:
            return
        self.open(None if learner.run is None else learner.run.path, learner.step)
        self._is_open = True

    def on_metrics(self, learner: "Learner[Any]", line: Mapping[str, Any]) -> None:
        named = {f"{line['split']}/{name}": value for name, value in values_of_line(line).items()}
        self._guarded(self.send, {name: value for name, value in named.items() if value is not None}, line)

    def on_checkpoint(self, learner: "Learner[Any]", checkpoint: Any) -> None:
        """A run that is killed goes on from here, so nothing from before may be lost."""
        self._guarded(self.flush)

    def on_fit_end(self, learner: "Learner[Any]") -> None:
        self._guarded(self.close, DONE)

    def on_exception(self, learner: "Learner[Any]", error: BaseException) -> None:
        self._guarded(self.close, FAILED if isinstance(error, Exception) else STOPPED)

    def _guarded(self, call: Any, *values: Any) -> None:
        if not self._is_open:
            return
        try:
            call(*values)
        # No error of a logger's service ends a training.
        except Exception as error:
            self._is_open = False
            message = f"{self.title} failed, and the training goes on without it: {type(error).__name__}: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


class SentLines:
    """Lines of a run that were sent already, kept in a file of its directory: a run that goes on sends nothing twice.

    Its `id` is that of the run at the other end; empty where nothing was sent yet.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        state: Any = None
        if file is not None:
            with suppress(OSError, ValueError, RecursionError):
                state = json.loads(read_regular(file))
        state = state if isinstance(state, dict) else {}
        self.id = str(state.get("id", ""))
        steps = state.get("steps")
        self._before: dict[str, int] = dict(steps) if isinstance(steps, dict) else {}
        self._steps = dict(self._before)

    def has(self, line: Mapping[str, Any]) -> bool:
        return line["step"] <= self._before.get(line["split"], -1)

    def add(self, line: Mapping[str, Any]) -> None:
        self._steps[line["split"]] = line["step"]
        self.save()

    def save(self) -> None:
        if self._file is None:
            return
        replace_file(self._file, json.dumps({"id": self.id, "steps": self._steps}).encode())


def config_values(run: Path | None) -> dict[str, Any]:
    """The values of a run's config by their paths; nothing where there is none."""
    if run is None or not (run / "config.yaml").is_file():
        return {}
    return flattened(parse_plain(read_regular(run / "config.yaml").decode(), "config.yaml"))
