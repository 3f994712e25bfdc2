"""MLflow: a tracking server or store."""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import ConfigError
from ...runs.log_file import DONE, FAILED, Ending
from .configs import MLflowConfig
from .logger import Logger, SentLines, config_of

_FLUSH_S = 10.0
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
        from mlflow.exceptions import MlflowException

        config = self.config
        self._sent = SentLines(None if run is None else run / "mlflow.json")
        try:
            self._client = mlflow.MlflowClient(tracking_uri=config.tracking_uri)
            if self._sent.id:
                self._client.update_run(self._sent.id, status="RUNNING")
            else:
                found = self._client.get_experiment_by_name(config.experiment)
                experiment = self._client.create_experiment(config.experiment) if found is None else found.experiment_id
                name = config.name or (None if run is None else run.resolve().name)
                self._sent.id = self._client.create_run(experiment, run_name=name).info.run_id
                self._send_config(run)
        except MlflowException as error:
            raise ConfigError(f"loggers: MLflow can't start: {error}") from error
        self._sent.save()
        self._flushed_at = time.monotonic()

    def _send_config(self, run: Path | None) -> None:
        from mlflow.entities import Param

        params = [Param(_name(name), str(value)[:_LONGEST_PARAM]) for name, value in config_of(run).items()]
        for place in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(self._sent.id, params=params[place : place + _MOST_PARAMS])

    def send(self, values: Mapping[str, float], line: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        if self._sent.has(line):
            return
        milliseconds = int(line.get("time", time.time()) * 1000)
        self._waiting += [Metric(_name(name), value, milliseconds, line["step"]) for name, value in values.items()]
        self._lines.append(line)
        if time.monotonic() - self._flushed_at >= _FLUSH_S:
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
