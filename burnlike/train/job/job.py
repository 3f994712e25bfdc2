"""A run from config to record: everything that `burnlike train` does once it has read its options."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from ...data import DataLoader, transformed
from ...data.sources.splits import classes_of, outputs_of
from ...errors import BatchSizeError, CheckpointError, ConfigError, DataError, DeviceError, RecordError
from ...interop.adapters.layers import has_adapters
from ...module import params, seed_param_ids
from ...module.torch_objects.wrappers import own_class
from ..checkpoint.checkpointer import Checkpointer
from ..checkpoint.mirror import Mirror
from ..learner.learner import Learner
from ..learner.measuring import left_out_of
from ..learner.result import LearningResult
from ..learner.stopping import Interrupter
from ..parallel.meeting import make_parallel
from ..runs.data_facts import keep_description, keep_facts
from ..runs.logs import MetricsLog, write_results
from ..runs.run_dir import RunDir
from ..state.frozen_base import digests_of, note_base
from ..state.small_parts import seed_random
from ..tasks.task import Task
from ..view.callback import Callback
from ..view.renderers import Renderer, renderer_of
from .configs import TrainConfig, Weights
from .deferring import FirstValues, deferred_model
from .device import check_fits, choose_device, describe_device, is_out_of_memory
from .results import copy_of, read_weights, without_values, write_weights
from .resuming import check_resumable
from .run_config import run_config
from .starting import choose_trained, first_model, loader_of, model_config
from .trial import check_batch

_SHOWN_ROWS = 5


class RunResult(NamedTuple):
    """The result of a run: of the training; the loss and metrics over all of each split, `valid` and others that the
    data has; what the task says of the trained model, by label; and of which step and which weights all of this is.
    """

    learning: LearningResult
    values: Mapping[str, Mapping[str, float]]
    said: Mapping[str, Any]
    step: int
    weights: Weights

    @property
    def valid_loss(self) -> float:
        """Over all of the validation data."""
        return self.values["valid"]["loss"]


class Job:
    """A run that is ready to start: data read, model built, nothing written yet."""

    def __init__(self, config: TrainConfig) -> None:
        """Build every part; a BurnlikeError if the device or the data can't be used for the model."""
        self.config = config
        self.device = choose_device(config.device)
        self.parallel = make_parallel(config.distributed, self.device)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        known = model_config(config, None)
        parts = self.parallel.world_size // self.parallel.sizes.replicate if self.parallel.is_sharded else 1
        module = check_fits(known, self.device, parts)
        self.data = transformed(config.data.init(), config.transforms)
        self.classes, self.facts = classes_of(self.data), dict(getattr(self.data, "facts", {}))
        self.model_config = model_config(config, outputs_of(self.classes, self.facts))
        if self.model_config != known:
            module = check_fits(self.model_config, self.device, parts)
        self.task: Task = config.task.init()
        self.task.take_facts({**self.facts, "classes": self.classes})
        self.task.take_data(self.data)
        own, needed = (getattr(it, "vocab_size", None) for it in (config.model, self.data))
        if own is not None and needed is not None and own < needed:
            raise ConfigError(f"model.vocab_size: expected at least {needed}, the vocabulary of the data, got {own}")
        if own is not None and callable(getattr(self.data, "expect_vocabulary", None)):
            self.data.expect_vocabulary(own)
        if module is not None:
            check_batch(config, self.data, module)
        seed_random(config.seed)
        seed_param_ids(config.seed)
        self.model, self.said = self._first_model()
        choose_trained(self.model, config)
        has_base = getattr(self.model_config, "has_base_elsewhere", False)
        is_deferred = isinstance(values := self.parallel.first_values, FirstValues)
        if has_adapters(self.model) and has_base and config.init_from is None:
            note_base(self.model, partial(values.digests, self.model, self.parallel) if is_deferred else digests_of)
        self._without_values = (
            without_values(self.model) if self.parallel.is_sharded and has_adapters(self.model) else None
        )
        if not is_deferred:
            self.task.try_out(self.model)
        training = self.training = config.training.divided(self.parallel.data_size)
        batches = (training.steps_per_epoch or 0) * training.accumulation_steps or None
        items = config.training.global_batch_size
        joined = None if items is None else items // training.accumulation_steps
        of_training: dict[str, Any] = {"drop_last": training.drop_last, "sampling": training.sampling}
        self.train_loader = self._loader(self.data.train, batches, joined_batch_size=joined, **of_training)
        # The same items for any number of processes, as those of a training step are.
        n_valid = (training.validation_steps or 0) * (training.accumulation_steps if items is not None else 1)
        size = joined or training.batch_size * self.parallel.data_size
        is_partial = 0 < n_valid * size < len(self.data.valid)
        self.valid_loader = self._loader(self.data.valid, n_valid if is_partial else None, joined_batch_size=joined)
        self.total_steps = training.epochs * training.steps_of(len(self.train_loader))
        self.n_params = sum(param.tensor.numel() for param in params(self.model, "weight"))
        self.learner = Learner(
            self.model,
            config.optimizer.init(),
            config.lr_scheduler.init(num_iters=self.total_steps),
            task=self.task,
            metrics=config.init_metrics(self.classes),
            device=self.device,
            precision=training.precision,
            ema=training.ema,
            parallel=self.parallel,
        )
        if is_deferred:
            self.task.try_out(self.model, *([self.parallel] if self.parallel.sizes.pipeline > 1 else []))
        if number := self.parallel.random_number:
            # Dropout of its own; rank 0 has that of a single process.
            seed_random(config.seed + number)

    def _first_model(self) -> tuple[nn.Module, list[str]]:
        """The model with its first values, and lines for the user about these; a divided one gets them later."""
        note = []
        if self.parallel.is_sharded:
            found = deferred_model(self.config, self.model_config, self.task, self.device)
            if not isinstance(found, str):
                model, said, self.parallel.first_values = found
                return model, said
            note = [f"          each process builds the whole model before it is divided: {found}"]
        model, said = first_model(self.config, self.model_config)
        return self.task.prepare(model).to(self.device), [*said, *note]

    def describe(self, run: RunDir) -> list[str]:
        lines = [f"run       {run.path}", f"device    {describe_device(self.device)}"]
        lines.append(f"model     {own_class(self.model).__name__}, {self.n_params:,} parameters")
        lines += self.said
        lines += self.parallel.describe()
        lines.append(f"data      {len(self.data.train):,} items to train on, {len(self.data.valid):,} to validate on")
        lines += getattr(self.data, "said", ())
        if unreadable := getattr(self.data.train, "unreadable", ()):
            reasons = [it for it in unreadable if it][:_SHOWN_ROWS]
            lines.append(f"          {len(unreadable):,} rows that can't be read are left out:")
            lines += [f"            {it}" for it in [*reasons, *["..."] * (len(unreadable) > len(reasons))]]
        training = self.training
        factors = (training.accumulation_steps, self.parallel.data_size)
        items = "".join(f"{it} x " for it in factors if it > 1) + f"{training.batch_size} items"
        if (whole := self.config.training.global_batch_size) is not None:
            items = f"{whole} items (at most {items} at a time)"
        epochs = f"{training.epochs} epoch" + "s" * (training.epochs != 1)
        lines.append(f"training  {self.total_steps} steps of {items} in {epochs}")
        return lines

    def _loader(self, dataset: Any, steps_per_epoch: int | None, **options: Any) -> DataLoader[Any, Any]:
        return loader_of(
            self.config,
            self.data,
            dataset,
            self.device,
            steps_per_epoch=steps_per_epoch,
            rank=self.parallel.data_rank,
            world_size=self.parallel.data_size,
            accumulation_steps=self.training.accumulation_steps,
            fingerprint=getattr(self.data, "fingerprint", None),
            **options,
        )

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
            with self.parallel.others_alive():
                gather, keep = self.config.checkpoint.gather, self.config.training.keep_checkpoints
                checkpointer = self.parallel.checkpointer(run.checkpoints, keep, gather=gather)
                if (place := self.config.checkpoint.mirror) is not None:
                    with self.parallel.all_or_none():
                        if self.parallel.is_main:
                            checkpointer.mirror = self._mirror(place, run, checkpointer, renderer)
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
            with self.parallel.others_alive():
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
        if self.parallel.is_main:
            run.clean()
            checkpointer.clean()
            MetricsLog(run.metrics).cut_back(self.learner.step)
            self.config.save(run.config)
            keep_facts(run.path, self.classes, self.facts, getattr(self.data, "files", {}))
            keep_description(run.path, self.model_config.description(self.model))

    def _finish(self, run: RunDir, learning: LearningResult, renderer: Renderer, interrupter: Interrupter) -> RunResult:
        """Measure on all of the validation data, write the record, and read it back for what the task says."""
        weights = self._take_final(learning, renderer)
        renderer.note("measuring on all of the validation data")
        values: dict[str, dict[str, float]] = {}
        for name, split in {"valid": self.data.valid, **getattr(self.data, "splits", {})}.items():
            loader = self._loader(split, None)
            skipped_before = loader.skipped
            values[name] = self.learner.evaluate(loader)
            if text := left_out_of(loader, self.parallel, skipped_before):
                renderer.note(f"{name}: {text}")
            interrupter.check()
        with self.learner.final_weights():
            model = self.task.export(self.model)
            precision = self.config.output.precision
            write_weights(model, run.path, precision, self.parallel, self._without_values)
        said: Mapping[str, Any] = {}
        if self.parallel.is_main:
            if self.parallel.is_sharded:
                written = self.task.prepare(self.model_config.without_weights(run.path).init("cpu")).to(self.device)
            else:
                written = copy_of(model)
            read_weights(written, run.path)
            said = self.task.finish(self, written)
            write_results(run.path, values, said, step=self.learner.step, weights=weights)
        self.parallel.broadcast(None)
        return RunResult(learning, values, said, self.learner.step, weights)

    def _take_final(self, learning: LearningResult, renderer: Renderer) -> Weights:
        """Give the model the weights that the config asks for at the end, and say which these are."""
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
