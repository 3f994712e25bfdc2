"""What the model of a run says of new inputs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ...data import DataLoader
from ...data.transforms.transformed import measured
from ...errors import ConfigError, DataError
from ..learner.steps import autocast
from .loaded_run import LoadedRun


@torch.no_grad()
def predictions(run: LoadedRun, sources: Sequence[Any], batch_size: int | None = None) -> Iterator[dict[str, Any]]:
    """A row for each input: its `name`, and what the task says of it; a tensor `[height, width]` is a mask.

    Inputs are read as the data of the training is, and changed as that of its validation is.

    Args:
        sources: paths of files or directories, and a text stream for standard input.
        batch_size: inputs of a batch; None: that of the training.

    Raises:
        DataError: an input can't be read, or a directory has none. Of files without rows there are no predictions.
        ConfigError: the data or the task of the run has no predictions.
    """
    config = run.config
    with run.knowing():
        inputs = config.data.unlabeled(sources, run.facts, run.directory)
    if len(inputs.names) == 0:
        if folder := next((it for it in sources if isinstance(it, Path) and it.is_dir()), None):
            raise DataError(f"predict: expected at least one input in {folder}, got none; check the path")
        return
    dataset = measured(inputs.dataset, config.transforms)
    if len(dataset) != len(inputs.names):
        raise DataError(
            f"transforms: one of them makes {len(dataset)} items of {len(inputs.names)} inputs; leave it out of the"
            " part `valid`, or set `transforms` anew by --set"
        )
    size = batch_size or config.training.batch_size
    names, facts = iter(inputs.names), {**run.facts, "decode": _decoder(run)}
    for batch in DataLoader(dataset, inputs.batcher, batch_size=size, device=run.device):
        with autocast(run.device, config.training.precision):
            rows = run.task.predict(run.model, batch, facts)
        for row in rows:
            yield {"name": next(names), **row}


def _decoder(run: LoadedRun) -> Any:
    """What turns tokens of the run's data into text; None where they are none."""
    try:
        return run.config.data.codec(run.facts, run.directory).decode
    except ConfigError:
        return None
