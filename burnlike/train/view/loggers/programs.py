"""The programs that metrics are sent to: TensorBoard, Weights & Biases, MLflow."""

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import ConfigError
from ...runs.logs import DONE, FAILED, Ending
from .configs import MLflowConfig, TensorBoardConfig, WandBConfig
from .logger import Logger, SentLines, config_values

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
            indented = "\n".join(
                f"    {line}" for line in config.read_text(encoding="utf-8").removesuffix("\n").split("\n")
            )
            self._writer.add_text("config", indented, 0)

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
        self._sent = SentLines(None if run is None else run / "wandb.json")
        try:
            self._run = wandb.init(
                project=config.project,
                entity=config.entity,
                name=config.name or (None if run is None else os.path.basename(os.path.abspath(run))),
                group=config.group,
                mode=config.mode,
                dir=None if run is None else str(run),
                id=self._sent.id or None,
                resume="allow" if self._sent.id else None,
                config=config_values(run),
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
                if existing is None:
                    experiment = self._client.create_experiment(config.experiment)
                else:
                    experiment = existing.experiment_id
                name = config.name or (None if run is None else os.path.basename(os.path.abspath(run)))
                self._sent.id = self._client.create_run(experiment, run_name=name).info.run_id
                params = [Param(_name(it), str(value)[:_LONGEST_PARAM]) for it, value in config_values(run).items()]
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
        for line in self._lines:
            self._sent.add(line)
        self._waiting, self._lines = [], []
        self._flushed_at = time.monotonic()

    def close(self, ending: Ending) -> None:
        self.flush()
        self._client.set_terminated(self._sent.id, {DONE: "FINISHED", FAILED: "FAILED"}.get(ending, "KILLED"))


def _name(text: str) -> str:
    return re.sub(r"[^\w\-. /:]", "_", text, flags=re.ASCII)
