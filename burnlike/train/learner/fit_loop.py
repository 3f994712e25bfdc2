"""One call of `Learner.fit`: the loop, when to log, validate, save and stop, and the result."""

import copy
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...data.configs import NO_TARGET
from ...errors import CheckpointError, ConfigError, RecordMismatchError, TrainingError
from ..checkpoint.checkpointer import Checkpoint, Checkpointer
from ..runs.logs import MetricsLog
from ..runs.run_dir import RunDir, open_or_create
from ..view.callback import Callback, Callbacks, RunLog
from ..view.renderers import Renderer, renderer_of
from .computing import computing
from .configs import BEST, TrainingConfig
from .foreign_loader import as_loader, check_ranks
from .saving import Saving, not_finite
from .steps import expect_methods, left_out_of, part_means, put_states, states_of, update_metrics, values_of
from .stopping import Interrupter, MetricEarlyStoppingStrategy

if TYPE_CHECKING:
    from .learner import Learner

_FAILED = 1 << 20
"""Above all numbers of signals."""
_STATE = ("saving", "metrics", "layout", "stopping", "stopped_early", "values", "callbacks")
_VALID = "the validation loader", "training.validation_steps"


class LearningResult(NamedTuple):
    """The result of a training.

    Attributes:
        steps: optimizer steps taken in all.
        train_loss: mean of the last logged steps; None if nothing was logged.
        valid_loss: of the last validation; None if there was none. `best_valid_loss` is the lowest one so far.
        checkpoint: the last one, if they are written; `best` that of the best validation, with `keep_best`.
        metrics: of the last validation, by name.
    """

    steps: int
    train_loss: float | None
    valid_loss: float | None
    best_valid_loss: float | None
    checkpoint: Checkpoint | None
    metrics: Mapping[str, float] = {}
    stopped_early: bool = False
    best: Checkpoint | None = None


def _check(learner: "Learner[Any]", training: Any, callbacks: Sequence[Any]) -> None:
    """Refuse arguments of `fit` of another class, and fields of a TrainingConfig that it would not use."""
    if not isinstance(training, TrainingConfig):
        raise ConfigError(
            f"training: expected a TrainingConfig, such as TrainingConfig(epochs=3), got {training!r:.80}"
        )
    if wrong := [it for it in callbacks if not isinstance(it, Callback)]:
        raise ConfigError(f"callbacks: expected objects of classes derived from Callback, got {wrong[0]!r:.80}")
    if training.precision not in ("float32", learner.precision):
        raise ConfigError(f"training.precision: say it to the Learner: Learner(..., precision={training.precision!r})")
    if training.ema is not None and (learner.ema is None or learner.ema.config != training.ema):
        raise ConfigError(f"training.ema: say it to the Learner: Learner(..., ema={training.ema!r})")
    if training.global_batch_size is not None:
        raise ConfigError("training.global_batch_size: only a job knows its loader's batches; say accumulation_steps")


class FitLoop:
    """One call of `Learner.fit`: trains a learner to the end of its epochs.

    `run` prepares, `_train` is the loop, and the other methods are what it does after a step.
    """

    def __init__(
        self,
        learner: "Learner[Any]",
        training: TrainingConfig,
        renderer: Renderer | None,
        callbacks: Sequence[Callback],
        interrupter: Interrupter | None,
    ) -> None:
        _check(learner, training, callbacks)
        self.learner = learner
        self.training = training = training.directed(learner.metrics)
        learner.directions = training.directions(learner.metrics)
        is_main = learner.parallel.is_main
        first = [renderer_of(renderer, is_main), *([RunLog()] if is_main else [])]
        self.callbacks = Callbacks([*first, *learner.parallel.callbacks(), *callbacks])
        self._notes: list[str] = []  # from before the training begins
        self.interrupter = interrupter
        self.metrics_log: MetricsLog | None = None
        self.checkpointer: Checkpointer | None = None
        self.values: dict[str, float] = {}
        # Copies: a validation updates and resets the learner's own.
        self.train_metrics = copy.deepcopy(learner.metrics) if training.train_metrics else {}
        # A checkpoint has what they counted of the epoch.
        expect_methods("training.train_metrics", self.train_metrics, "state_dict", "load_state_dict")
        stopping = training.early_stopping
        self.stopping = None if stopping is None else MetricEarlyStoppingStrategy(stopping)
        self.stopped_early = False
        self._counts_nothing = False  # in some line
        self.saving: Saving | None = None

    def run(
        self,
        train_loader: Any,
        valid_loader: Any,
        directory: str | Path | None,
        metrics_log: MetricsLog | None,
        checkpointer: Checkpointer | None,
    ) -> LearningResult:
        """Train to the end of the epochs, and say how it went; callbacks are told of any error."""
        learner, training = self.learner, self.training
        train, valid = self._checked_loaders(train_loader, valid_loader)
        with ExitStack() as stack:
            self.metrics_log, self.checkpointer = metrics_log, checkpointer
            if directory is not None:
                opened = open_or_create(directory) if learner.parallel.is_main else RunDir.follow(directory)
                self._open(stack.enter_context(closing(opened)), train)
            if self.checkpointer is not None:
                self.saving = Saving(learner, training, self.checkpointer)
            if learner.loaded_fit:
                self.load_state_dict(learner.loaded_fit)
            # From now on checkpoints have the state of this call; before, that of the last one.
            learner.fit_state = self.state_dict
            if self.saving is not None:
                self.saving.begin()
            learner.epochs, learner.epoch = training.epochs, train.epoch
            learner.total_steps = training.epochs * training.steps_of(len(train))
            # Ended before the run's lock is given up: no other process may save meanwhile.
            stack.push(self._end)
            self._notes += stack.enter_context(computing(learner.model, training, learner.device))
            if learner.int8_layers is not None:
                self._notes.append(learner.int8_layers.note)
            try:
                self.callbacks.call("on_fit_start", learner)
                for note in self._notes:
                    self._note(note)
                with learner.parallel.explain_lost_peer():
                    self._train(train, valid)
                    self._tell_saved(wait=True)
                if self._counts_nothing and learner.last["train"] is None:
                    raise TrainingError(
                        f"no target counted in any of the {learner.step} steps, so nothing was learned: all are ignored"
                        f" ({NO_TARGET}, or what the loss leaves out). Look at the labels of the data, such as by"
                        " `burnlike data`: a mask or a max_length may leave out all answers"
                    )
                self.callbacks.call("on_fit_end", learner)
            except BaseException as error:
                self.callbacks.call("on_exception", learner, error)
                raise
        return LearningResult(
            steps=learner.step,
            train_loss=learner.last["train"],
            valid_loss=learner.last["valid"],
            best_valid_loss=learner.last["best_valid"],
            checkpoint=None if self.saving is None else self.saving.last,
            metrics=self.values,
            stopped_early=self.stopped_early,
            best=None if self.saving is None else self.saving.best,
        )

    def _checked_loaders(self, train_loader: Any, valid_loader: Any) -> tuple[Any, Any]:
        """The loaders with an epoch and a position; a ConfigError for a training that these can't have."""
        learner, training = self.learner, self.training
        steps = training.steps_per_epoch
        batches = None if steps is None else steps * training.accumulation_steps
        train, valid = as_loader(train_loader, learner.device, batches), valid_loader
        if valid is not None:
            valid = as_loader(valid, learner.device, training.validation_steps, _VALID)
        check_ranks(train, learner.parallel.data_size)
        check_ranks(valid, learner.parallel.data_size)
        for name in BEST:
            if getattr(training, name) is not None and valid is None:
                raise ConfigError(f"training.{name}: is decided by the validation; expected a valid_loader, got none")
        in_float8 = training.float8 is not None
        learner.parallel.check_computing(learner.precision, compiles=training.compile, in_float8=in_float8)
        return train, valid

    def _open(self, run: RunDir, train: Any) -> None:
        self.learner.run = run
        parallel = self.learner.parallel
        self.metrics_log = MetricsLog(run.metrics)
        self.checkpointer = parallel.checkpointer(run.checkpoints, self.training.keep_checkpoints)
        checkpoint = parallel.latest(self.checkpointer)
        if parallel.is_main:
            run.clean()
        self.checkpointer.clean()
        if checkpoint is not None:
            with parallel.reading(checkpoint) as readable:
                self._notes = [f"resuming from {checkpoint.path}", *self.learner.load_checkpoint(readable, train)]
        if parallel.is_main:
            self.metrics_log.cut_back(self.learner.step)

    def _end(self, kind: type[BaseException] | None, *_: Any) -> None:
        learner = self.learner
        if kind is None or learner.parallel.world_size == 1:  # after an error the others may be anywhere
            learner.loaded_fit = self.state_dict()
            learner.fit_state = lambda: learner.loaded_fit
        if self.checkpointer is not None:
            self.checkpointer.wait()
            for text in self.checkpointer.notes(wait=True):
                self._note(text)

    def _train(self, train: Any, valid: Any) -> None:
        """Train on the batches of each epoch: backward for each, and a step after the last one of a step."""
        learner, training, callbacks = self.learner, self.training, self.callbacks
        learner.model.train()  # once: a validation gives each module its own mode back
        learner.window.restart_clock()
        learner.drop_gradients()
        while train.epoch < training.epochs and not self.stopped_early:
            epoch = learner.epoch = train.epoch
            skipped_before = getattr(train, "skipped", 0)
            callbacks.call("on_epoch_start", learner, epoch)
            for batch in train:
                callbacks.call("on_batch_start", learner, batch)
                epoch_done = train.epoch > epoch
                # By the loader's position, not a count of its own: a resumed run starts at the end of a step.
                is_last = epoch_done or train.position % training.accumulation_steps == 0
                output = learner.backward(batch, is_last=is_last, counts=not getattr(train, "is_padding", False))
                if training.train_metrics and learner.parallel.has_predictions:
                    update_metrics(self.train_metrics, output)
                if is_last:
                    callbacks.call("on_backward_end", learner)
                    lr = learner.take_step()
                    callbacks.call("on_step_end", learner)
                    self._after_step(train, valid, lr, epoch_done=epoch_done)
            if text := left_out_of(train, learner.parallel, skipped_before):
                self._note(f"epoch {epoch + 1}: {text}")
            callbacks.call("on_epoch_end", learner, epoch)

    def _after_step(self, train: Any, valid: Any, lr: float, *, epoch_done: bool) -> None:
        """Log, validate and save, where this step is one to do so after, and stop where a signal asked for it."""
        learner = self.learner
        # Asked before the line is written: all processes agree on it, and a stop during a validation waits for a step.
        is_stopped = self._is_stopped()
        values: dict[str, float] = {}
        if epoch_done or learner.step % self.training.log_every_steps == 0:
            self._log(self._train_line(lr, epoch_done=epoch_done))
            for note in learner.parallel.notes():
                self._note(note)
        if epoch_done and valid is not None:
            values = self._validate(valid)
            learner.window.restart_clock()
        self._save(train, values, epoch_done=epoch_done, is_stopped=is_stopped)
        if is_stopped and self.interrupter is not None:
            self.interrupter.check()

    def _is_stopped(self) -> bool:
        """True if a signal asks to stop; a save that has failed in one process is an error of all after this step."""
        if self.interrupter is None and self.saving is None:
            return False
        has_failed = self.checkpointer is not None and self.checkpointer.has_failed
        asked = 0 if self.interrupter is None else self.interrupter.asked or 0
        number = self.learner.parallel.largest(_FAILED if has_failed else asked)
        if number == _FAILED:
            self._tell_saved(wait=True)
        if number and self.interrupter is not None and not self.interrupter.stopped:
            self.interrupter.stop(number)
        return number != 0

    def _train_line(self, lr: float, *, epoch_done: bool) -> dict[str, Any]:
        learner = self.learner
        parts = part_means(learner.window, learner.parallel)
        total, size, rate = learner.parallel.sums(learner.window.close())
        loss = total / size if size else math.nan
        if not size:
            self._counts_nothing = True
            self._note(f"step {learner.step}: no target counted since the line before, so there is no loss to show")
        elif not math.isfinite(loss):
            raise not_finite(learner.step, f"the loss became {loss}")
        else:
            learner.last["train"] = loss
        unit = getattr(learner.task, "unit", "items")
        line = {"step": learner.step, "epoch": learner.epoch, "split": "train", "loss": loss, **parts, "lr": lr}
        line[f"{unit}_per_s"] = rate
        if epoch_done and self.training.train_metrics:
            line |= values_of(self.train_metrics, learner.parallel)
            for metric in self.train_metrics.values():
                metric.reset()
        return line

    def _validate(self, valid: Any) -> dict[str, float]:
        """Evaluate after an epoch; the values by the names that strategies know them by."""
        learner = self.learner
        self.callbacks.call("on_valid_start", learner, "valid")
        skipped_before = getattr(valid, "skipped", 0)
        self.values = values = learner.evaluate(valid)
        if text := left_out_of(valid, learner.parallel, skipped_before):
            self._note(f"validation of epoch {learner.epoch + 1}: {text}")
        loss, best = values["loss"], learner.last["best_valid"]
        if math.isnan(loss):
            nothing = getattr(learner.task, "uncounted", "no target counted")
            self._note(f"validation of epoch {learner.epoch + 1}: {nothing}, so there is no loss to show")
        learner.last["valid"] = loss
        learner.last["best_valid"] = loss if best is None or math.isnan(best) else min(best, loss)
        self._log({"step": learner.step, "epoch": learner.epoch, "split": "valid", **values})
        for name in BEST:
            if (config := getattr(self.training, name)) is not None:
                self.training.expect_metric(name, config.metric, values)
        if (stopping := self.stopping) is not None:
            self.stopped_early = stopping.should_stop(learner.epoch + 1, values[stopping.config.metric])
            if self.stopped_early:
                self._note(f"stopping early: {stopping.config.metric} was best in epoch {stopping.best_epoch}")
        return {f"valid.{name}": value for name, value in values.items()}

    def _save(self, train: Any, values: dict[str, float], *, epoch_done: bool, is_stopped: bool) -> None:
        if (saving := self.saving) is None:
            return
        self._tell_saved(wait=False)
        is_end = is_stopped or train.epoch >= self.training.epochs or self.stopped_early
        if saving.is_due(values, epochs=train.epoch, epoch_done=epoch_done, is_end=is_end):
            self._tell_saved(wait=True)
            with self.learner.parallel.all_or_none():
                if self.metrics_log is not None and self.learner.parallel.is_main:
                    self.metrics_log.sync()
                saving.save(train, values, background=self.training.background_checkpoints and not is_end)
        self._tell_saved(wait=is_end)

    def _tell_saved(self, *, wait: bool) -> None:
        checkpoint = None
        if self.saving is not None:
            with self.learner.parallel.all_or_none() if wait else nullcontext():
                checkpoint = self.saving.written(wait=wait)
        if checkpoint is not None:
            self.callbacks.call("on_checkpoint", self.learner, checkpoint)
        for text in [] if self.checkpointer is None else self.checkpointer.notes():
            self._note(text)

    def _log(self, line: dict[str, Any]) -> None:
        line = {**line, "time": time.time()}
        if self.metrics_log is not None and self.learner.parallel.is_main:
            self.metrics_log.append(line)
        self.callbacks.call("on_metrics", self.learner, line)

    def _note(self, text: str) -> None:
        self.callbacks.call("on_note", self.learner, text)

    def state_dict(self) -> dict[str, Any]:
        return {
            "saving": {} if self.saving is None else self.saving.state_dict(),
            "metrics": self.learner.parallel.gather({name: states_of(it) for name, it in self.train_metrics.items()}),
            "layout": self.learner.parallel.sizes.layout,
            "stopping": None if self.stopping is None else self.stopping.state_dict(),
            "stopped_early": self.stopped_early,
            "values": dict(self.values),
            "callbacks": self.callbacks.state_dict(),
            "task": self.learner.parallel.gather(getattr(self.learner.task, "training_state", dict)()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a state; a CheckpointError, before anything is changed, where another release wrote less."""
        if missing := next((name for name in _STATE if name not in state), None):
            raise self._of_another_release(f"it lacks '{missing}'")
        if self.saving is not None:
            self.saving.load_state_dict(state["saving"])
        if self.stopping is not None and state["stopping"] is not None:
            self.stopping.load_state_dict(state["stopping"])
        parallel = self.learner.parallel
        if state["layout"] == parallel.sizes.layout:  # of another number of processes they begin anew
            for name, states in state["metrics"][parallel.rank].items():
                if name in self.train_metrics:
                    try:
                        put_states(self.train_metrics[name], states)
                    except RecordMismatchError as error:
                        raise self._of_another_release(f"metrics.{name}: {error}") from error
            if (task_states := state.get("task")) and task_states[parallel.rank]:
                self.learner.task.load_training_state(task_states[parallel.rank])
        self.stopped_early, self.values = state["stopped_early"], dict(state["values"])
        self.callbacks.load_state_dict(state["callbacks"])

    def _of_another_release(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"the checkpoint of step {self.learner.step} can't be gone on with: {reason}; another release wrote it, or"
            " it was changed. Resume with the release that wrote it, or start a new run"
        )
