"""LoadedRun: the model of a run, to be measured and used."""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...config.overrides import Option
from ...data.sources.splits import classes_of, outputs_of
from ...errors import CheckpointError, DataError, RunDirError
from ..checkpoint.checkpointer import Checkpoint, Checkpointer
from ..learner.configs import BestMetricConfig
from ..learner.ema import Ema
from ..runs.data_facts import FOLDER, NAME, kept_facts
from ..runs.logs import read_metrics
from ..runs.run_dir import local_run
from ..runs.run_files import results_of
from ..state.frozen_base import load_model
from ..tasks.task import Task
from .configs import TrainConfig, Weights
from .device import choose_device
from .results import MODEL_NAME, has_weights, read_weights
from .run_config import run_config
from .starting import choose_trained, model_config


class LoadedRun:
    """The model of a run, with what it takes to use it.

    Attributes:
        path: the run's directory.
        config: its config.
        model: with the chosen weights, in evaluation mode, on `device`.
        task: what it was trained for.
        classes: the names of the classes, by number; None where the data has none.
        facts: what else is known of the data, such as the names of its features.
        step: of the weights, and `weights` which they are: of the `best` validation, the `last` ones, their average
            (`ema`), or of a `checkpoint` that was named.
    """

    def __init__(
        self, path: Path, config: TrainConfig, model: nn.Module, task: Task, facts: Mapping[str, Any],
        step: int, weights: str, device: torch.device,
    ) -> None:  # fmt: skip
        self.path, self.config, self.model, self.task = path, config, model, task
        self.facts, self.classes = facts, facts["classes"]
        self.step, self.weights, self.device = step, weights, device

    @property
    def directory(self) -> Path:
        """The copies of files of the data, such as a tokenizer."""
        return self.path / FOLDER

    @contextmanager
    def knowing(self) -> Iterator[None]:
        """Say of what lacks among the facts of the data where it should be."""
        try:
            yield
        except KeyError as error:
            raise RunDirError(
                f"{self.path / NAME} lacks {error}, without which data can't be read as the training has read it;"
                " it was changed, or written by another release: put the file back, or train again"
            ) from error

    def read_data(self, config: Any = None) -> Any:
        """Read a data set, the run's own or that of another config, as the model knows it: with its classes."""
        chosen = config or self.config.data
        with self.knowing():
            is_old = {*self.facts} == {"classes"}  # a run of a release that kept nothing else
            data = chosen.init() if is_old else chosen.init_with(self.facts, self.directory)
        found = classes_of(data)
        if found is not None and self.classes is not None and found != list(self.classes):
            raise DataError(
                f"data: expected the classes of the run {self.path}, {', '.join(self.classes)}, got {', '.join(found)}:"
                " their numbers would mean other things"
            )
        return data


def load_run(
    path: str | os.PathLike[str],
    *,
    best: bool | None = None,
    step: int | None = None,
    device: torch.device | str | None = None,
    overrides: "list[Option | str] | tuple[()]" = (),
) -> LoadedRun:
    """Load the model of a run.

    Weights are read from the run's checkpoints, in full precision and as they were validated (of `training.ema` the
    average), or where that of their step is gone from `model.safetensors`.

    Args:
        path: the directory of the run.
        best: True: of the best validation, by `keep_best` or else the loss, among the checkpoints that are there.
            False: of the last checkpoint. None: as `output.weights` of the config says.
        step: of a checkpoint, in place of `best`.
        device: where the model goes; None: as the config says.
        overrides: as of `TrainConfig.load`, put into the config of the run.

    Raises:
        CheckpointError: there is no run, or no such checkpoint.
        RunDirError, RecordError: a file can't be read, or does not fit.
    """
    run = local_run(path)
    config = run_config(run, overrides)
    facts = kept_facts(run)
    place = choose_device(config.device if device is None else str(device))
    wanted: Weights = config.final_weights if best is None else "best" if best else "last"
    checkpoint, weights = _choose(run, config, wanted, step)
    task: Task = config.task.init()
    task.take_facts(facts)
    structure = model_config(config, outputs_of(facts["classes"], facts)).without_weights(run)
    model = task.prepare(structure.init("cpu"))
    choose_trained(model, config)  # of which alone there may be an average
    if checkpoint.path == run:
        read_weights(model, run)
    else:
        load_model(checkpoint.part("model"), model)
        if config.training.ema is not None and not (best is None and weights == "last"):
            average = Ema(model, config.training.ema).load_record(checkpoint.part("ema"))
            average.swap()
    return LoadedRun(run, config, model.to(place).eval(), task, facts, checkpoint.step, weights, place)


def model_of_run(path: str, device: torch.device) -> nn.Module:
    """The model of a run, in training mode, on `device`; on the meta device without its weights."""
    if device.type != "meta":
        return load_run(path, device=device).model.train()
    run = Path(path)
    config = run_config(run)
    facts = kept_facts(run)
    structure = model_config(config, outputs_of(facts["classes"], facts)).without_weights(run)
    return config.task.init().prepare(structure.init("meta"))


def _choose(run: Path, config: TrainConfig, wanted: Weights, step: int | None) -> tuple[Checkpoint, str]:
    """The checkpoint with the wanted weights, or the run itself where its result has them; and which these are."""
    result = results_of(run)
    found = {it.step: it for it in Checkpointer(run / "checkpoints").all()}
    written = result.get("step") if has_weights(run) else None
    if isinstance(written, int):
        found.setdefault(written, Checkpoint(written, run))
    if not found:
        raise CheckpointError(f"the run {run} has no checkpoint and no {MODEL_NAME} yet; go on with it by --resume")
    if step is not None:
        if step not in found:
            raise CheckpointError(f"the run {run} has no checkpoint of step {step}, but of {_listed(found)}")
        return found[step], "checkpoint"
    if wanted == "best" and (best := best_step(run, config, {*found})) is not None:
        return found[best], "best"
    if wanted == "best" and config.training.keep_best is not None:
        raise CheckpointError(
            f"the run {run} has no validation of the steps whose weights are there, {_listed(found)}; choose one"
        )
    return found[max(found)], "last" if wanted == "best" else wanted


def best_step(run: Path, config: TrainConfig, steps: set[int]) -> int | None:
    """The step among these with the best validation, by `keep_best` or else the loss; None if none was validated."""
    metrics = dict(zip(config.metric_names(), config.metrics, strict=True))
    best = config.training.directed(metrics).keep_best or BestMetricConfig().directed()
    lines = [it for it in read_metrics(run / "metrics.jsonl").lines if it["split"] == "valid" and it["step"] in steps]
    sign = 1 if best.direction == "lowest" else -1
    values = {
        it["step"]: (
            sign * it[best.metric],
            it["loss"] if it.get("loss") is not None else math.inf,
        )  # of equal ones the loss
        for it in lines
        if it.get(best.metric) is not None
    }
    return min(values, key=values.__getitem__, default=None)


def _listed(steps: Mapping[int, Any]) -> str:
    return ", ".join(map(str, sorted(steps)))
