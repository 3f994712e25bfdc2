"""What a forecast knows of the data: the model and the task for it, and the shapes of a batch."""

from typing import Any

import torch

from ...config import ModuleConfig
from ...config.file_paths import missing_files
from ...data import transformed
from ...data.sources.splits import classes_of, outputs_of
from ...errors import ConfigError
from ..tasks.task import Task
from .configs import TrainConfig
from .starting import model_config
from .trial import first_batch, implied_inputs


class ForecastBatch:
    """The batches of a training, by the data where it is there, else by the shapes that its config says.

    Attributes:
        model: the config of the model, completed by the task and the data.
        lengths_differ: whether batches have different sizes, as items have different lengths.
    """

    model: ModuleConfig
    lengths_differ = False

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._data: Any = None
        self._facts: dict[str, Any] = {"classes": None}
        outputs: Any = None
        if not any(path.startswith("data") for path, _ in missing_files(config)):
            self._data = transformed(config.data.init(), config.transforms)
            facts, classes = dict(getattr(self._data, "facts", {})), classes_of(self._data)
            self._facts = {**facts, "classes": classes}
            outputs = outputs_of(classes, facts)
            lengths: Any = getattr(self._data.train, "lengths", None)
            self.lengths_differ = lengths is not None and len(torch.as_tensor(lengths).unique()) > 1
        self.model = model_config(config, outputs)

    def task(self) -> Task:
        """A new task for the data."""
        task: Task = self._config.task.init()
        if self._data is not None:
            task.take_facts(self._facts)
            task.take_data(self._data)
        return task

    def of(self, size: int) -> Any:
        """A batch of so many items, the longest where they have lengths.

        Raises:
            ConfigError: neither the data nor its config says what a batch looks like.
        """
        if self._data is not None:
            return first_batch(self._config, self._data, size)
        try:
            (given,) = implied_inputs(self._config, self.model)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"data: its files are not there, and the config does not say shapes ({error})") from error
        shape = (size, *given.shape[1:])
        if getattr(self._config.data, "context_length", None) is not None:
            return torch.zeros((size, shape[1] + 1), dtype=torch.int64)
        return torch.zeros(shape, dtype=getattr(torch, given.dtype)), torch.zeros(size, dtype=torch.int64)
