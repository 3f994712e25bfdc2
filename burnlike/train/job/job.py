"""A run from config to record: everything that `burnlike train` does once it has read its options."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from ...config import ModuleConfig
from ...data import DataLoader
from ...errors import BatchSizeError, CheckpointError, ConfigError, DataError, DeviceError, RecordError
from ...interop.adapters.layers import has_adapters
from ...module import params, seed_param_ids
from ...module.printing.values import type_text
from ..checkpoint.checkpointer import Checkpointer
from ..checkpoint.mirror import Mirror
from ..learner.configs import TrainingConfig
from ..learner.fit_loop import LearningResult
from ..learner.learner import Learner
from ..learner.steps import left_out_of
from ..learner.stopping import Interrupter
from ..parallel.distributed import make_parallel
from ..parallel.single_process import SingleProcess
from ..runs.logs import MetricsLog, write_results
from ..runs.run_dir import RunDir, keep_description, keep_facts
from ..state.training_state import digests_of, note_base, seed_random
from ..tasks.configs import task_within
from ..tasks.task import Task
from ..view.callback import Callback
from ..view.renderers import Renderer, renderer_of
from .configs import TrainConfig, Weights
from .device import check_fits, choose_device, describe_device, is_out_of_memory
from .loaded_run import copy_of, read_weights, without_values, write_weights
from .run_config import check_resumable, keep_config, run_config
from .starting import (
    FirstValues,
    JobData,
    begin_by_data,
    choose_trained,
    deferred_model,
    first_model,
    loader_of,
    model_config,
)
from .trial import check_batch

_SHOWN_ROWS = 5


class RunResult(NamedTuple):
    """The result of a run: of the training; loss and metrics over all of each split; the task's notes on the trained
    model, by label; and the step and kind of the weights that these are of.
    """

    learning: LearningResult
    values: Mapping[str, Mapping[str, float]]
    task_notes: Mapping[str, Any]
    step: int
    weights: Weights

    @property
    def valid_loss(self) -> float:
        """Over all of the validation data."""
        return self.values["valid"]["loss"]

    @property
    def said(self) -> Mapping[str, Any]:
        """The `task_notes`, by their name of release 0.1.0 and of `results.json`."""
        return self.task_notes


class Job:
    """A run that is ready to start: data read, model built, nothing written yet.

    It is made in stages, each a function of what the stages before it gave: processes, data, task, model, loaders,
    learner. The order of the stages is a promise: what can be refused cheaply is refused before what takes long, and
    random numbers are drawn in the same order for every strategy, so that all begin with the same values.
    """

    def __init__(self, config: TrainConfig) -> None:
        """Build every part; a BurnlikeError if the device or the data can't be used for the model."""
        self.config = config
        self.device = choose_device(config.device)
        self.parallel = make_parallel(config.distributed, self.device)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        read, self.model_config, meta_model = _read_data(config, self.device, self.parallel)
        self.data, self.classes, self.facts = read
        self.task = read.task(config)
        _check_data(config, read, meta_model)
        self.model, self.notes, first_values = _first_model(
            config, self.model_config, self.task, self.device, self.parallel, read
        )
        self.model_config = read.model_config(config)  # which has ranks by the data now
        self.parallel.first_values = first_values
        # Of a divided model with adapters: the structure that the adapters are gathered into when they are written.
        # It is copied here because the learner divides the model.
        is_gathered = self.parallel.is_sharded and has_adapters(self.model)
        self._empty_model = without_values(self.model) if is_gathered else None
        if first_values is None:
            self.task.try_out(self.model)
        self.training = config.training.divided(self.parallel.data_size)
        self._loader = partial(
            loader_of,
            config,
            self.data,
            device=self.device,
            rank=self.parallel.data_rank,
            world_size=self.parallel.data_size,
            accumulation_steps=self.training.accumulation_steps,
            fingerprint=getattr(self.data, "fingerprint", None),
        )
        self.train_loader, self.valid_loader = _loaders(config, self.training, self.data, self._loader, self.parallel)
        self.total_steps = self.training.epochs * self.training.steps_of(len(self.train_loader))
        # Counted before the learner divides the model among processes.
        self.n_params = sum(param.tensor.numel() for param in params(self.model, "weight"))
        self.learner = Learner(
            self.model,
            config.optimizer.init(),
            config.schedule(self.total_steps, len(self.data.train)).init(num_iters=self.total_steps),
            task=self.task,
            metrics=config.init_metrics(read.outputs),
            device=self.device,
            precision=self.training.precision,
            ema=self.training.ema,
            parallel=self.parallel,
        )
        if first_values is not None:  # which the learner has given the model only now
            self.task.try_out(self.model, *([self.parallel] if self.parallel.sizes.pipeline > 1 else []))
        if number := self.parallel.random_number:
            # Dropout differs among the processes that read other items; that of rank 0 is as of a single process.
            seed_random(config.seed + number)

    def describe(self, run: RunDir) -> list[str]:
        lines = [f"run       {run.path}", f"device    {describe_device(self.device)}"]
        lines.append(f"model     {type_text(self.model)}, {self.n_params:,} parameters")
        lines += self.notes
        lines += self.parallel.describe()
        lines.append(f"data      {len(self.data.train):,} items to train on, {len(self.data.valid):,} to validate on")
        lines += self._small_data_notes()
        lines += getattr(self.data, "said", ())
        if unreadable := getattr(self.data.train, "unreadable", ()):
            reasons = [it for it in unreadable if it][:_SHOWN_ROWS]
            lines.append(f"          {len(unreadable):,} rows that can't be read are left out:")
            lines += [f"            {it}" for it in [*reasons, *["..."] * (len(unreadable) > len(reasons))]]
        training = self.training
        factors = (training.accumulation_steps, self.parallel.data_size)
        items = "".join(f"{factor} x " for factor in factors if factor > 1) + f"{training.batch_size} items"
        if (whole := self.config.training.global_batch_size) is not None:
            items = f"{whole} items (at most {items} at a time)"
        epochs = f"{training.epochs} epoch" + "s" * (training.epochs != 1)
        lines.append(f"training  {self.total_steps} steps of {items} in {epochs}")
        return lines

    def _small_data_notes(self) -> list[str]:
        """A line for the user where all items to train on are less than one batch."""
        training, count = self.config.training, len(self.data.train)
        if training.steps_per_epoch or training.global_batch_size or len(self.train_loader) != 1:
            return []
        if count >= training.batch_size * self.parallel.data_size:
            return []
        items = f"{count:,} item{'s' * (count != 1)}"
        return [f"          each epoch has one batch of {items}, as training.batch_size is {training.batch_size:,}"]

    def run(
        self,
        run: RunDir,
        renderer: Renderer | None = None,
        interrupter: Interrupter | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> RunResult:
        """Train in `run`, from its last checkpoint if it has one, and write the final record.

        The interrupter is asked after each step; a stop is raised as Interrupted. A checkpoint that does not fit, what
        can't be written and a loss that is not finite are a BurnlikeError.
        """
        renderer = renderer_of(renderer, self.parallel.is_main)
        interrupter = interrupter or Interrupter()
        self.learner.run = run
        try:
            with self.parallel.explain_lost_peer():
                gather, keep = self.config.checkpoint.gather, self.config.training.keep_checkpoints
                checkpointer = self.parallel.checkpointer(run.checkpoints, keep, gather=gather)
                if (place := self.config.checkpoint.mirror) is not None:
                    with self.parallel.all_or_none():
                        if self.parallel.is_main:
                            checkpointer.mirror = self._mirror(place, run, checkpointer, renderer)
                self.task.start(self, run.path)
                self._go_back(run, checkpointer, renderer)
            learning = self.learner.fit(
                self.train_loader,
                self.valid_loader,
                self.training,
                metrics_log=MetricsLog(run.metrics),
                checkpointer=checkpointer,
                renderer=renderer,
                callbacks=[*(logger.init() for logger in self.config.loggers), *callbacks],
                interrupter=interrupter,
            )
            with self.parallel.explain_lost_peer():
                result = self._finish(run, learning, renderer, interrupter)
            for note in checkpointer.mirror_result():
                renderer.note(note)
            return result
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            remedy = "lower training.batch_size or the size of the items; the last checkpoint is whole"
            raise DeviceError(f"the memory of {self.device} is full: {remedy}") from error

    def _mirror(self, place: str, run: RunDir, checkpointer: Checkpointer, renderer: Renderer) -> Mirror:
        """The run's mirror, from which it gets the checkpoints that it lacks."""
        mirror = Mirror(place, run.path)
        present = checkpointer.all()
        mirror.claim(is_new=run.is_new, has_checkpoints=bool(present))
        step = mirror.fetch(run.checkpoints, present[-1].step if present else -1)
        if step is not None:
            renderer.note(f"got the checkpoint of step {step} from {mirror.place}")
        return mirror

    def _go_back(self, run: RunDir, checkpointer: Checkpointer, renderer: Renderer) -> None:
        checkpoint = self.parallel.latest(checkpointer)
        if run.config.exists():
            before = run_config(run.path)
            for change in check_resumable(before, self.config, str(run.path)):
                renderer.note(f"changed since the run began: {change}")
            if checkpoint is None:
                renderer.note(f"{run.path} has no checkpoint yet: starting from the beginning")
        if checkpoint is not None and checkpoint.step > self.total_steps:
            wanted = f"the {self.total_steps} of training.epochs {self.training.epochs}"
            raise CheckpointError(
                f"the run {run.path} has trained {checkpoint.step} steps, more than {wanted}; give it more epochs"
            )
        if checkpoint is not None:
            try:
                with self.parallel.reading(checkpoint) as readable:
                    notes = self.learner.load_checkpoint(readable, self.train_loader)
            except RecordError as error:
                raise checkpoint.damaged(error) from error
            except BatchSizeError as error:
                raise CheckpointError(f"the run {run.path} can't go on from {checkpoint.path.name}: {error}") from error
            except DataError as error:
                raise CheckpointError(
                    f"the data of the run {run.path} has changed since its checkpoint {checkpoint.path.name} "
                    f"({error}); put it back to resume the run, or leave out --resume to start a new one"
                ) from error
            for note in (f"resuming from {checkpoint.path}", *notes):
                renderer.note(note)
        self.parallel.broadcast(None)  # all have read
        if self.parallel.is_main:  # only now: a run that can't go on is left as it was
            run.clean()
            checkpointer.clean()
            MetricsLog(run.metrics).cut_back(self.learner.step)
            keep_config(self.config, run.config)
            keep_facts(run.path, self.classes, self.facts, getattr(self.data, "files", {}))
            keep_description(run.path, self.model_config.description(self.model))

    def _finish(self, run: RunDir, learning: LearningResult, renderer: Renderer, interrupter: Interrupter) -> RunResult:
        """Measure on all of the validation data, write the record, and read it back for the task's notes."""
        weights = self._take_final(learning, renderer)
        renderer.note("measuring on all of the validation data")
        values: dict[str, dict[str, float]] = {}
        for name, split in {"valid": self.data.valid, **getattr(self.data, "splits", {})}.items():
            loader = self._loader(split)
            skipped_before = loader.skipped
            values[name] = self.learner.evaluate(loader)
            if text := left_out_of(loader, self.parallel, skipped_before):
                renderer.note(f"{name}: {text}")
            interrupter.check()
        with self.learner.final_weights():
            model = self.task.export(self.model)
            precision = self.config.output.precision
            write_weights(model, run.path, precision, self.parallel, self._empty_model)
        task_notes: Mapping[str, Any] = {}
        if self.parallel.is_main:
            # Notes are of what was written, in its precision, not of the model in memory.
            if self.parallel.is_sharded:
                written = self.task.prepare(self.model_config.without_weights(run.path).init("cpu")).to(self.device)
            else:
                written = copy_of(model)
            read_weights(written, run.path)
            task_notes = self.task.finish(self, written)
            write_results(run.path, values, task_notes, step=self.learner.step, weights=weights)
        self.parallel.broadcast(None)  # others end when rank 0 has written
        return RunResult(learning, values, task_notes, self.learner.step, weights)

    def _take_final(self, learning: LearningResult, renderer: Renderer) -> Weights:
        """Give the model the weights that the config asks for at the end; returns their kind."""
        learner, wanted = self.learner, self.config.final_weights
        if wanted == "best" and learning.best is None:
            renderer.note("no validation had a value of keep_best's metric: none is the best; taking the last weights")
            wanted = "last" if learner.ema is None else "ema"
        if wanted == "best" and learning.best is not None and learning.best.step != learner.step:
            renderer.note(f"taking the weights of the best validation, of step {learning.best.step}")
            learner.take_weights(learning.best)
        if wanted == "last":
            learner.ema = None
        return wanted


def _read_data(
    config: TrainConfig, device: torch.device, parallel: SingleProcess
) -> tuple[JobData, ModuleConfig, nn.Module | None]:
    """Read the data and complete the model's config by its classes; a DeviceError if the model can't fit.

    The model without values comes with them, to try a step on; None if it can't be built so.
    """
    parts = parallel.world_size // parallel.sizes.replicate if parallel.is_sharded else 1
    # A model that is too large is refused before the data is read, which may take hours.
    smallest = model_config(config, None).for_sizes(1, 1)
    meta_model = check_fits(smallest, device, parts)
    read = JobData.read(config)
    completed = read.model_config(config)
    if completed != smallest:
        meta_model = check_fits(completed, device, parts)
    return read, completed, meta_model


def _check_data(config: TrainConfig, read: JobData, meta_model: nn.Module | None) -> None:
    """Refuse a model with fewer tokens than the data has, and one that can't take a step on a batch of it."""
    completed = read.model_config(config)
    size, needed = (
        getattr(it, "vocab_size", None) for it in (getattr(completed, "with_new_tokens", completed), read.data)
    )
    if size is not None and needed is not None and size < needed:
        raise ConfigError(f"model.vocab_size: expected at least {needed}, the vocabulary of the data, got {size}")
    if size is not None and callable(getattr(read.data, "expect_vocabulary", None)):
        read.data.expect_vocabulary(size)
    if meta_model is not None:
        check_batch(config, read, meta_model)


def _first_model(
    config: TrainConfig,
    completed: ModuleConfig,
    task: Task,
    device: torch.device,
    parallel: SingleProcess,
    read: JobData,
) -> tuple[nn.Module, list[str], FirstValues | None]:
    """The model, prepared by the task, with its frozen parameters, and notes for the user.

    Of a divided one without values, if that can be; they are given to it when it has been divided.
    """
    # From here on random numbers are drawn: initial values first, as a single process draws them.
    seed_random(config.seed)
    seed_param_ids(config.seed)
    deferred = deferred_model(config, completed, task, device) if parallel.is_sharded else ""
    if isinstance(deferred, str):  # why it can't be built so, or empty
        model, notes = first_model(config, completed)
        deferred_notes = f"          each process builds the whole model before it is divided: {deferred}"
        started = task.prepare(model).to(device), [*notes, *([deferred_notes] if deferred else [])], None
    else:
        started = deferred
    model, notes, first_values = started
    choose_trained(model, config)
    if (eva := getattr(completed, "eva", None)) is not None:
        notes.append(begin_by_data(config, read, model, task, device, parallel.data_size, eva))
    can_read_base = getattr(completed, "has_base_elsewhere", False) and config.init_from is None
    if can_read_base and has_adapters(model):  # then checkpoints need not have the weights below adapters
        note_base(model, digests_of if first_values is None else partial(first_values.digests, model, parallel))
    return started


def _loaders(
    config: TrainConfig,
    training: TrainingConfig,
    data: Any,
    loader: Callable[..., DataLoader[Any, Any]],
    parallel: SingleProcess,
) -> tuple[DataLoader[Any, Any], DataLoader[Any, Any]]:
    """The loaders to train and to validate with; `training` is the config's, divided among the processes."""
    batches = (training.steps_per_epoch or 0) * training.accumulation_steps or None
    items = config.training.global_batch_size
    joined = None if items is None else items // training.accumulation_steps
    train_loader = loader(
        data.train,
        steps_per_epoch=batches,
        joined_batch_size=joined,
        drop_last=training.drop_last,
        sampling=training.sampling,
        repeats=getattr(task_within(config.task), "updates", 1),
    )
    # Validation takes the same items for any number of processes, as a training step does.
    n_valid = (training.validation_steps or 0) * (training.accumulation_steps if items is not None else 1)
    size = joined or training.batch_size * parallel.data_size
    is_partial = 0 < n_valid * size < len(data.valid)
    return train_loader, loader(data.valid, steps_per_epoch=n_valid if is_partial else None, joined_batch_size=joined)
