"""Measures the model of a run on data, and keeps what came of it in the run's directory."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from ..._outputs import Output
from ...data import ComposedDataset
from ...data.transforms.transformed import measured
from ...errors import ArgumentError, nearest
from ...optim import SgdConfig
from ..learner.learner import Learner
from ..runs.logs import write_json
from ..runs.run_files import EVALUATIONS
from .loaded_run import LoadedRun
from .starting import loader_of

ALL = "all"


class Evaluation(NamedTuple):
    """The loss and the metrics of a part of the data, and where they are kept; `left_out` says why the first of the
    items that can't be read were left out.
    """

    split: str
    items: int
    values: Mapping[str, float]
    file: Path
    left_out: Sequence[str] = ()


def evaluate_run(run: LoadedRun, split: str | None = None, data: Any = None, *, said: Mapping[str, Any]) -> Evaluation:
    """Measure the model of a run on a part of its data, or of the data of another config.

    Each part is read as `predict` reads it: with the transforms of `valid`, also the part to train on.

    Args:
        split: `train`, `valid`, the name of a further part, or `all` of them together; None: `test` where there is such
            a part, else `valid`.
        data: config of a data set; None for the run's own.
        said: what is written beside the values, such as the options.

    Raises:
        ArgumentError: there is no such part.
        BurnlikeError: the data can't be read, or is not of this model.
    """
    started = time.perf_counter()
    found = run.read_data(data)
    parts = {"train": found.train, "valid": found.valid, **getattr(found, "splits", {})}
    parts = {name: measured(part, run.config.transforms) for name, part in parts.items()}
    name = split or ("test" if "test" in parts else "valid")
    if name == ALL:
        parts[ALL] = ComposedDataset([*parts.values()])
    if name not in parts:
        raise ArgumentError(f"--split {name}: expected one of {', '.join((*parts, ALL))}{nearest(name, [*parts])}")
    config = run.config
    loader = loader_of(config, found, parts[name], run.device)
    metrics = config.init_metrics(run.classes)
    options: dict[str, Any] = {"device": run.device, "precision": config.training.precision}
    learner = Learner(run.model, SgdConfig().init(), 0.0, task=run.task, metrics=metrics, **options)
    learner.step = run.step
    skipped_before = loader.skipped
    values = learner.evaluate(loader)
    items = len(parts[name]) - (loader.skipped - skipped_before)
    left_out = [*loader.left_out, *(it for it in getattr(parts[name], "unreadable", ()) if it)]
    file = _free(run.path / EVALUATIONS, f"{name}-step-{run.step:08d}")
    facts = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "seconds": time.perf_counter() - started}
    about = {"step": run.step, "weights": run.weights, "split": name, "items": items, "left_out": left_out, **said}
    Output(file, "evaluate", "the evaluation").check_file()
    write_json(file, {**facts, **about, "values": values})
    return Evaluation(name, items, values, file, left_out)


def _free(folder: Path, name: str) -> Path:
    """A file that is not there yet."""
    numbered = (folder / f"{name}{f'-{number}' if number > 1 else ''}.json" for number in count(1))
    return next(it for it in numbered if not os.path.lexists(it))
