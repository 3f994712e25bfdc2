"""Learner: the training and validation loops over anything that has a loss."""

import math
import time
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import nn

from ...data import DataLoader
from ...errors import TrainingError
from ...module import params
from ...optim import (
    AnyLrScheduler,
    GradientsParams,
    ModuleLearningRate,
    ModuleLrScheduler,
    OptimizerAdaptor,
)
from ...record import Record
from ..checkpoint.checkpointer import Checkpoint, Checkpointer
from ..runs.metrics_log import MetricsLog
from ..state.training_state import TrainingState
from ..view.renderers import PlainRenderer, Renderer
from .configs import TrainingConfig
from .interrupt import Interrupter
from .loss import LossFunction
from .micro_batches import MicroBatches
from .window import LossWindow

Batch = TypeVar("Batch")


class LearningResult(NamedTuple):
    """The result of a training.

    Attributes:
        steps: optimizer steps taken in all.
        train_loss: mean of the last logged steps; None if nothing was logged.
        valid_loss: of the last validation; None if there was none.
        best_valid_loss: the lowest one so far.
        checkpoint: the last one, if they are written.
    """

    steps: int
    train_loss: float | None
    valid_loss: float | None
    best_valid_loss: float | None
    checkpoint: Checkpoint | None


class Learner(Generic[Batch]):
    """A model, its optimizer and its learning rate schedule, and how far they are trained.

    Everything that decides how a training goes on is in `to_records`, so one that was saved and loaded ends in the same
    bits as one that was never stopped (on a CPU with the same number of threads).
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: OptimizerAdaptor[Any],
        lr_scheduler: AnyLrScheduler[float] | AnyLrScheduler[ModuleLearningRate],
        *,
        loss: LossFunction,
        device: torch.device | str = "cpu",
    ) -> None:
        """Make a learner that has taken no step.

        Args:
            model: trained in place.
            optimizer: updates the model.
            lr_scheduler: gives the rate of each step, or the rates of groups of parameters.
            loss: `(model, batch) -> Loss`.
            device: where the model is.

        Raises:
            ConfigError: a group of the optimizer or of the schedule matches no parameter of the model, or the optimizer
                can't train it.
        """
        optimizer.check(model)
        if isinstance(lr_scheduler, ModuleLrScheduler):
            lr_scheduler.check(model)
        self.model = model
        self.optimizer = optimizer
        self.lr_scheduler = lr_scheduler
        self.loss = loss
        self.device = torch.device(device)
        self.step = 0
        self._window = LossWindow(self.device)
        self._gradients = MicroBatches()
        self._last: dict[str, float | None] = {"train": None, "valid": None, "best_valid": None}

    def fit(
        self,
        train_loader: DataLoader[Any, Batch],
        valid_loader: DataLoader[Any, Batch],
        training: TrainingConfig,
        *,
        metrics: MetricsLog | None = None,
        checkpointer: Checkpointer | None = None,
        renderer: Renderer | None = None,
        interrupter: Interrupter | None = None,
    ) -> LearningResult:
        """Train until `training.epochs` epochs are done, from where the loader stands.

        Args:
            train_loader: its epoch and position are where training goes on.
            valid_loader: read from its beginning after each epoch.
            training: epochs, batches of a step, and how often to log and save; its batch size is the loader's matter.
            metrics: where lines go, if anywhere.
            checkpointer: writes checkpoints, if any are wanted.
            renderer: shows progress; default: plain lines.
            interrupter: asked after each step whether to stop; a checkpoint is written first.

        Raises:
            TrainingError: the loss or a parameter is not finite any more; the last checkpoint is from before.
            CheckpointError: a checkpoint can't be written; or, before anything is done, the checkpointer's directory is
                another run's.
            Interrupted: the interrupter was asked to stop.
        """
        renderer = renderer or PlainRenderer()
        saved = None
        if checkpointer is not None:
            checkpointer.check(self.step)
            saved = checkpointer.latest()
        renderer.start(self.step, training.epochs * training.steps_of(len(train_loader)))
        try:
            self.model.train()
            self._window.restart_clock()
            self._gradients.clear()
            while train_loader.epoch < training.epochs:
                epoch = train_loader.epoch
                for batch in train_loader:
                    self._backward(batch)
                    ended = train_loader.epoch > epoch
                    # By the position: a run that goes on does so at the end of a step.
                    if not ended and train_loader.position % training.accumulation_steps:
                        continue
                    lr = self._update()
                    renderer.advance(self.step)
                    stopped = interrupter is not None and interrupter.stopped
                    if ended or self.step % training.log_every_steps == 0:
                        self._log(metrics, renderer, self._train_line(epoch, lr))
                    if ended:
                        self._log(metrics, renderer, self._valid_line(epoch, valid_loader))
                        self._window.restart_clock()
                    every = training.checkpoint_every_steps
                    if checkpointer and (ended or stopped or (every and self.step % every == 0)):
                        with self.optimizer.eval_weights(self.model):  # the model that is saved is one to be used
                            saved = checkpointer.save(self.step, self.to_records(train_loader))
                    if interrupter is not None and stopped:
                        interrupter.check()
        finally:
            renderer.close()
        return LearningResult(self.step, self._last["train"], self._last["valid"], self._last["best_valid"], saved)

    def train_step(self, *batches: Batch) -> float:
        """Take one optimizer step with the gradient that one batch of all the items would have; returns the base rate.

        Args:
            batches: whose losses are means over `Loss.size` items each; at least one.
        """
        for batch in batches:
            self._backward(batch)
        return self._update()

    def _backward(self, batch: Batch) -> None:
        loss = self.loss(self.model, batch)
        loss.mean.backward()
        self._gradients.add(self.model, GradientsParams.from_module(self.model), loss.size)
        self._window.add(loss)

    def _update(self) -> float:
        lr = self.lr_scheduler.step()
        self.model = self.optimizer.step(lr, self.model, self._gradients.take())
        self.step += 1
        return lr.base if isinstance(lr, ModuleLearningRate) else lr

    @torch.no_grad()
    def validate(self, loader: DataLoader[Any, Batch]) -> float:
        """Mean loss over the loader's first epoch, every value of equal weight; the model is not changed."""
        was_training = self.model.training
        self.model.eval()
        loader.rewind()
        with self.optimizer.eval_weights(self.model):
            losses = [self.loss(self.model, batch) for batch in loader]
        self.model.train(was_training)
        means = torch.stack([loss.mean for loss in losses]).double().cpu()
        sizes = torch.tensor([loss.size for loss in losses], dtype=torch.float64)
        return ((means * sizes).sum() / sizes.sum()).item()

    def to_records(self, train_loader: DataLoader[Any, Batch]) -> dict[str, Record]:
        """Everything that a training needs to go on: the records `model`, `optimizer` and `training`.

        Raises:
            TrainingError: a loss or a parameter is not finite; such a state is not worth keeping.
        """
        self._check_finite()
        return self._state(train_loader).to_records()

    def load_checkpoint(self, checkpoint: Checkpoint, train_loader: DataLoader[Any, Batch]) -> None:
        """Go back to the state of a checkpoint.

        Raises:
            CheckpointError: a file of it is missing or damaged.
            RecordError: it is of another model or optimizer.
            DataError: it is of other data.
        """
        self._gradients.clear()
        self._state(train_loader).load_records(
            {name: checkpoint.load(name) for name in ("training", "model", "optimizer")}
        )
        self.optimizer.use_training_weights(self.model)

    def _state(self, train_loader: DataLoader[Any, Batch]) -> TrainingState:
        return TrainingState(
            model=self.model,
            optimizer=self.optimizer,
            lr_scheduler=self.lr_scheduler,
            loader=train_loader,
            window=self._window,
            counters=_Counters(self),
        )

    def _check_finite(self) -> None:
        mean = self._window.mean()
        if mean is not None and not math.isfinite(mean):
            raise TrainingError(self._not_finite(f"the loss became {mean}"))
        floats = [param for param in params(self.model) if param.tensor.is_floating_point()]
        sums = torch.stack([param.tensor.detach().sum(dtype=torch.float64).cpu() for param in floats])
        for param, total in zip(floats, sums.tolist(), strict=True):
            if not math.isfinite(total):
                raise TrainingError(self._not_finite(f"the parameter '{param.path}' is not finite any more"))

    def _not_finite(self, what: str) -> str:
        return (
            f"{what} by step {self.step}; checkpoints from before are kept. Start again with a lower "
            "lr_scheduler.initial_lr, a longer warm-up, or optimizer.grad_clipping"
        )

    def _train_line(self, epoch: int, lr: float) -> dict[str, Any]:
        loss, rate = self._window.close()
        if not math.isfinite(loss):
            raise TrainingError(self._not_finite(f"the loss became {loss}"))
        self._last["train"] = loss
        return {"step": self.step, "epoch": epoch, "split": "train", "loss": loss, "lr": lr, "tokens_per_s": rate}

    def _valid_line(self, epoch: int, loader: DataLoader[Any, Batch]) -> dict[str, Any]:
        loss = self.validate(loader)
        best = self._last["best_valid"]
        self._last["valid"] = loss
        self._last["best_valid"] = loss if best is None else min(best, loss)
        return {"step": self.step, "epoch": epoch, "split": "valid", "loss": loss}

    def _log(self, metrics: MetricsLog | None, renderer: Renderer, line: dict[str, Any]) -> None:
        if metrics is not None:
            metrics.append({**line, "time": time.time()})
        renderer.show(line)


class _Counters:
    """The steps and last losses of a learner, as a part of its state."""

    def __init__(self, learner: Learner[Any]) -> None:
        self._learner = learner

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._learner.step, "last": self._learner._last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        step, last = int(state["step"]), {name: state["last"][name] for name in self._learner._last}
        self._learner.step, self._learner._last = step, last
