"""Logger, the base of callbacks that send metrics elsewhere; and those to TensorBoard, Weights & Biases and MLflow."""

import importlib.util
import json
import os
import re
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._atomic import replace_file
from ..._regular_file import read_regular
from ...errors import ConfigError
from ..runs.logs import DONE, FAILED, STOPPED, Ending
from ..runs.run_files import config_values
from .callback import Callback
from .formats import values_of_line
from .logger_configs import MLflowConfig, TensorBoardConfig, WandBConfig

if TYPE_CHECKING:
    from ..learner.learner import Learner


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


_FLUSH_S = 10


class TensorBoard(Logger):
    """Writes scalars as `torch.utils.tensorboard` does; `tensorboard --logdir runs` shows them.

    Where a run goes back to a checkpoint, TensorBoard is told to drop the later points of the files before.
    """

    title, package, extra = "TensorBoard", "tensorboard", "tensorboard"

    def __init__(self, config: TensorBoardConfig | None = None) -> None:
        super().__init__()
        self.config = config or TensorBoardConfig()
        self._writer: Any = None

    def open(self, run: Path | None, step: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        directory = self.config.directory or (None if run is None else run / "tensorboard")
        if directory is None:
            raise ConfigError("loggers: TensorBoard has no place to write to: set `directory`, or give the run one")
        folder = Path(directory)
        try:
            is_new = not any(folder.glob("events.*"))
            self._writer = SummaryWriter(str(folder), purge_step=None if is_new else step + 1, flush_secs=_FLUSH_S)
        except OSError as error:
            raise ConfigError(f"loggers: TensorBoard can't write to {folder}: {error.strerror}") from error
        config = None if run is None else run / "config.yaml"
        if is_new and config is not None and config.is_file():
            # TensorBoard shows text as Markdown, in which four spaces keep lines as they are.
            lines = config.read_text(encoding="utf-8").removesuffix("\n").split("\n")
            self._writer.add_text("config", "\n".join(f"    {line}" for line in lines), 0)

    def send(self, values: Mapping[str, float], line: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, line["step"], walltime=line.get("time"))

    def flush(self) -> None:
        self._writer.flush()

    def close(self, ending: Ending) -> None:
        self._writer.close()


class WandB(Logger):
    """Sends metrics to Weights & Biases, with the step as the x axis and the config as the run's.

    The run's id is kept in `wandb.json` of the run's directory: a run that goes on continues its curves.
    """

    title, package, extra = "Weights & Biases", "wandb", "wandb"

    def __init__(self, config: WandBConfig | None = None) -> None:
        super().__init__()
        self.config = config or WandBConfig()
        self._sent = SentLines(None)
        self._run: Any = None

    def open(self, run: Path | None, step: int) -> None:
        import wandb
        from wandb.errors import Error

        config = self.config
        name, values = _described(run, config.name)
        self._sent = SentLines(None if run is None else run / "wandb.json")
        try:
            self._run = wandb.init(
                project=config.project,
                entity=config.entity,
                name=name,
                group=config.group,
                mode=config.mode,
                dir=None if run is None else str(run),
                id=self._sent.id or None,
                resume="allow" if self._sent.id else None,
                config=values,
                # It would put streams of its own before the terminal's, on which the live view moves the cursor.
                settings=wandb.Settings(console="off"),
            )
        except Error as error:
            raise ConfigError(
                f"loggers: Weights & Biases can't start: {error}; log in by `wandb login`, or set `mode: offline`"
            ) from error
        self._sent.id = self._run.id
        self._sent.save()

    def send(self, values: Mapping[str, float], line: Mapping[str, Any]) -> None:
        if not self._sent.has(line):
            self._run.log({**values, "epoch": line["epoch"]}, step=line["step"])
            self._sent.add(line)

    def close(self, ending: Ending) -> None:
        self._run.finish(exit_code=int(ending == FAILED))


_SEND_S = 10.0
_MOST_METRICS, _MOST_PARAMS, _LONGEST_PARAM = 1000, 100, 500
"""Of a request, as MLflow allows."""


class MLflow(Logger):
    """Sends metrics to MLflow, in batches since each is a request, and the config as parameters.

    The run's id is kept in `mlflow.json` of the run's directory: a run that goes on continues its curves.
    """

    title, package, extra = "MLflow", "mlflow", "mlflow"

    def __init__(self, config: MLflowConfig | None = None) -> None:
        super().__init__()
        self.config = config or MLflowConfig()
        self._sent = SentLines(None)
        self._client: Any = None
        self._waiting: list[Any] = []
        self._lines: list[Mapping[str, Any]] = []
        self._flushed_at = 0.0

    def open(self, run: Path | None, step: int) -> None:
        import mlflow
        from mlflow.entities import Param
        from mlflow.exceptions import MlflowException

        config = self.config
        self._sent = SentLines(None if run is None else run / "mlflow.json")
        try:
            self._client = mlflow.MlflowClient(tracking_uri=config.tracking_uri)
            if self._sent.id:
                self._client.update_run(self._sent.id, status="RUNNING")
            else:
                existing = self._client.get_experiment_by_name(config.experiment)
                create = self._client.create_experiment
                experiment = create(config.experiment) if existing is None else existing.experiment_id
                name, values = _described(run, config.name)
                self._sent.id = self._client.create_run(experiment, run_name=name).info.run_id
                params = [Param(_name(key), str(value)[:_LONGEST_PARAM]) for key, value in values.items()]
                for place in range(0, len(params), _MOST_PARAMS):
                    self._client.log_batch(self._sent.id, params=params[place : place + _MOST_PARAMS])
        except MlflowException as error:
            raise ConfigError(f"loggers: MLflow can't start: {error}") from error
        self._sent.save()
        self._flushed_at = time.monotonic()

    def send(self, values: Mapping[str, float], line: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        if self._sent.has(line):
            return
        milliseconds = int(line.get("time", time.time()) * 1000)
        self._waiting += [Metric(_name(name), value, milliseconds, line["step"]) for name, value in values.items()]
        self._lines.append(line)
        if time.monotonic() - self._flushed_at >= _SEND_S:
            self.flush()

    def flush(self) -> None:
        for place in range(0, len(self._waiting), _MOST_METRICS):
            self._client.log_batch(self._sent.id, metrics=self._waiting[place : place + _MOST_METRICS])
        # After the batches: lines of a request that failed are sent again by a run that goes on.
        for line in self._lines:
            self._sent.add(line)
        self._waiting, self._lines = [], []
        self._flushed_at = time.monotonic()

    def close(self, ending: Ending) -> None:
        self.flush()
        self._client.set_terminated(self._sent.id, {DONE: "FINISHED", FAILED: "FAILED"}.get(ending, "KILLED"))


def _described(run: Path | None, name: str | None) -> tuple[str | None, dict[str, Any]]:
    """The name of a run, by default that of its directory, and the values of its config."""
    if run is None:
        return name, {}
    return name or os.path.basename(os.path.abspath(run)), config_values(run)


def _name(text: str) -> str:
    return re.sub(r"[^\w\-. /:]", "_", text, flags=re.ASCII)
