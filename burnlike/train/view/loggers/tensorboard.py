"""TensorBoard: event files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import ConfigError
from ...runs.log_file import Ending
from .configs import TensorBoardConfig
from .logger import Logger

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
            indented = "\n".join(f"    {line}" for line in config.read_text(encoding="utf-8").splitlines())
            self._writer.add_text("config", indented, 0)

    def send(self, values: Mapping[str, float], line: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, line["step"], walltime=line.get("time"))

    def flush(self) -> None:
        self._writer.flush()

    def close(self, ending: Ending) -> None:
        self._writer.close()
