"""WandB: Weights & Biases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import ConfigError
from ...runs.log_file import FAILED, Ending
from .configs import WandBConfig
from .logger import Logger, SentLines, config_of


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
                name=config.name or (None if run is None else run.resolve().name),
                group=config.group,
                mode=config.mode,
                dir=None if run is None else str(run),
                id=self._sent.id or None,
                resume="allow" if self._sent.id else None,
                config=config_of(run),
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
