"""Learner: trains and evaluates any module."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ..._torch_compat.modules import is_compiled
from ...errors import ArgumentError
from ...optim import GradientClipping, Optimizer
from ..checkpoint.checkpointer import Checkpoint, Checkpointer
from ..metrics.directions import Directions
from ..parallel.single_process import SingleProcess
from ..parallel.step_output import items_of
from ..runs.logs import MetricsLog
from ..state.training_state import TrainingState, load_model
from ..view.callback import Callback
from ..view.renderers import Renderer
from .computing import Int8Layers
from .configs import ComputePrecision, EmaConfig, TrainingConfig
from .fit_loop import FitLoop, LearningResult
from .foreign_loader import as_loader, check_ranks
from .saving import Counters
from .steps import (
    LossFunction,
    LossWindow,
    Metric,
    StepOutput,
    TrainStep,
    add_batch_to_errors,
    autocast,
    evaluate,
    expect_methods,
    output_of,
    task_of,
)
from .stopping import Interrupter
from .updates import Accumulation, AnyOptimizer, Ema, Schedule, Update

Batch = TypeVar("Batch")


class Learner(Generic[Batch]):
    """A model, its optimizer and its learning rate schedule, and how far they are trained.

    Everything that decides how a training goes on is in its checkpoints, so one that was saved and loaded ends in the
    same bits as one that was never stopped (on a CPU with the same number of threads).

    Example:
        >>> from torch.nn import functional
        >>> from burnlike.train import TrainingConfig
        >>> model = nn.Linear(4, 1)
        >>> learner = Learner(
        ...     model,
        ...     torch.optim.AdamW(model.parameters(), lr=0.1),
        ...     loss=lambda model, batch: functional.mse_loss(model(batch[0]), batch[1]),
        ... )
        >>> data = torch.utils.data.TensorDataset(torch.rand(64, 4), torch.rand(64, 1))
        >>> loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
        >>> result = learner.fit(loader, training=TrainingConfig(epochs=2))  # doctest: +ELLIPSIS
        step 4/8  epoch 1  loss ...
        step 8/8  epoch 2  loss ...
        >>> result.steps
        8

    Attributes:
        step: optimizer steps taken.
        total_steps: those of the whole training, once it has begun.
        epoch: the epoch that is trained, from 0.
        epochs: how many there are.
        run: the directory of the run, if it has one.
        directions: whether high values of its metrics are good, by name, once it has begun.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: AnyOptimizer,
        lr_scheduler: Schedule = None,
        *,
        loss: LossFunction | None = None,
        task: TrainStep | None = None,
        metrics: Mapping[str, Metric] | None = None,
        device: torch.device | str | None = None,
        precision: ComputePrecision = "float32",
        grad_clipping: GradientClipping | None = None,
        ema: EmaConfig | None = None,
        parallel: SingleProcess | None = None,
    ) -> None:
        """Make a learner that has taken no step; a ConfigError if a part is missing or does not fit the others.

        Args:
            model: any module, trained in place.
            optimizer: one of burnlike, such as `AdamWConfig().init()` gives or your own, or one of `torch.optim`.
            lr_scheduler: a schedule of burnlike, one of `torch.optim.lr_scheduler`, or a rate; it is stepped once for
                each optimizer step. One of torch's optimizers needs none.
            loss: `(model, batch) -> loss`, in place of a task: a scalar, or a StepOutput with what metrics compare.
            task: has `train_step(model, batch)`, and `valid_step` where validation differs. Without both, the model's
                own `train_step(batch)` and `valid_step(batch)` are called.
            metrics: by name; any of torchmetrics works.
            device: where batches go; None is where the model's first parameter is.
            precision: the type that autocast computes in; float16 scales the loss; int8_mixed as in TrainingConfig.
            grad_clipping: for torch's optimizers; burnlike's have their own.
            ema: an average of the weights, which validation uses.
        """
        self.parallel = parallel or SingleProcess()
        self.parallel.check_computing(precision, compiles=any(map(is_compiled, model.modules())))
        # Before anything keeps a parameter: strategies put others in their place, or parts of them.
        self.parallel.prepare(model, optimizer)
        self.parallel.give_first_values(model)
        self.model = model
        self.optimizer = optimizer
        self.update = Update(model, optimizer, lr_scheduler, grad_clipping, self.parallel.other_stages)
        self.lr_scheduler = self.update.schedule
        self.task = task_of(model, loss, task)
        expect_methods("metrics", metrics or {}, "update", "compute", "reset")
        self.metrics = dict(metrics or {})
        first = next(model.parameters(), None)
        self.device = torch.device(device or ("cpu" if first is None else first.device))
        self.precision: ComputePrecision = precision
        self.ema = Ema(model, ema) if ema is not None else None
        self.scaler = torch.amp.GradScaler(self.device.type) if precision == "float16" else None
        self.step = self.total_steps = self.epoch = self.epochs = 0
        self.run: Any = None
        self.directions: Directions = {}
        self.window = LossWindow(self.device)
        self.last: dict[str, float | None] = {"train": None, "valid": None, "best_valid": None}
        self.loaded_fit: dict[str, Any] = {}
        self.fit_state: Callable[[], dict[str, Any]] = lambda: self.loaded_fit
        self._are_final = False
        self._accumulation = Accumulation(self.parallel)

    def fit(
        self,
        train_loader: Iterable[Batch],
        valid_loader: Iterable[Batch] | None = None,
        training: TrainingConfig | None = None,
        *,
        directory: str | Path | None = None,
        metrics_log: MetricsLog | None = None,
        checkpointer: Checkpointer | None = None,
        renderer: Renderer | None = None,
        callbacks: Sequence[Callback] = (),
        interrupter: Interrupter | None = None,
    ) -> LearningResult:
        """Train until `training.epochs` epochs are done, from where the loader stands.

        Args:
            train_loader: burnlike's DataLoader, whose epoch and position are where training goes on, or any other
                iterable of batches with a length.
            valid_loader: read from its beginning after each epoch; None validates nothing.
            training: epochs, batches of a step, and how often to log and save. Batch size, sampling, `drop_last`,
                workers and bad items are the loaders' matter, and precision and ema the Learner's own arguments.
            directory: of the run, with its metrics and checkpoints. A training that was stopped there goes on.
            metrics_log: where lines go, if there is no directory.
            checkpointer: writes checkpoints, if there is no directory.
            renderer: shows progress, the first of the callbacks; default: plain lines.
            interrupter: asked after each step whether to stop; a checkpoint is written first.

        Raises:
            TrainingError: the loss or a parameter is not finite any more; the last checkpoint is from before.
            CheckpointError: a checkpoint can't be written; or, before anything is done, the checkpointer's directory is
                another run's.
            Interrupted: the interrupter was asked to stop.
        """
        if directory is not None and (metrics_log is not None or checkpointer is not None):
            raise ArgumentError("fit: a directory has its own metrics_log and checkpointer; leave these out")
        loop = FitLoop(self, training or TrainingConfig(), renderer, callbacks, interrupter)
        return loop.run(train_loader, valid_loader, directory, metrics_log, checkpointer)

    def train_step(self, *batches: Batch) -> float:
        """Take one optimizer step with the gradient that one batch of all the items would have.

        Returns the learning rate, of groups that of the base. There is at least one batch.
        """
        for place, batch in enumerate(batches):
            self.backward(batch, is_last=place == len(batches) - 1)
        return self.take_step()

    def backward(self, batch: Batch, *, is_last: bool = True, counts: bool = True) -> StepOutput:
        """Compute the loss of a batch and accumulate its gradients; processes exchange them with the last batch of a
        step.

        A batch that does not count belongs to another process: its gradients are 0.
        """
        if begin := getattr(self.task, "begin_step", None):
            begin(self.step)
        forward = partial(self._forward, counts=counts)
        in_int8 = nullcontext() if self.int8_layers is None else self.int8_layers.computing()
        with in_int8, self.parallel.accumulating(self.model, is_last, counts):
            if (pipeline := self.parallel.pipeline) is None:
                output = forward(batch)
                loss = self._weighed(output)
                if loss is not None:
                    loss.backward()
            else:
                self.parallel.reference(items_of(batch))  # all agree on it, before one needs it
                output = pipeline.backward(batch, forward, self._weighed, is_last=is_last)
                if not pipeline.has_last:  # where losses are weighed, and so counted
                    self._accumulation.count(output.size)
        self.window.add(output)
        return output

    def _forward(self, batch: Any, *, counts: bool) -> StepOutput:
        """The task's step on a training batch, or on a micro-batch of one; one that does not count is of size 0."""
        with self.autocast(), add_batch_to_errors(batch, lambda: f"step {self.step + 1}, epoch {self.epoch + 1}"):
            result = self.parallel.train_step(self.task.train_step, self.model, batch)
        output = output_of(result, batch, is_training=torch.is_grad_enabled())
        return output if counts else output._replace(size=0, parts={})

    def _weighed(self, output: StepOutput) -> Tensor | None:
        """The loss to differentiate, by the batch's weight in the step and the scaler's; None for one of no items."""
        loss = self._accumulation.weighed(output.loss, output.size)
        return loss if loss is None or self.scaler is None else self.scaler.scale(loss)

    def take_step(self) -> float:
        """Take the optimizer step of the gradients that are there; returns the learning rate."""
        divisor = self._accumulation.divisor()
        if divisor == 0.0:  # those of 0, with which several processes wait for each other, would move momentum
            self.drop_gradients()
        lr = self.update.step(divisor, self.scaler if divisor else None)
        self.step += 1
        if self.ema is not None:
            self.ema.update()
        return lr

    def drop_gradients(self) -> None:
        """Forget the batches of a step that was not taken."""
        self._accumulation.clear()
        for parameter in self.model.parameters():
            parameter.grad = None

    def validate(self, loader: Iterable[Batch]) -> float:
        """Mean loss over the loader's first epoch, every value of equal weight; the model is not changed."""
        return self.evaluate(loader)["loss"]

    def evaluate(self, loader: Iterable[Batch], steps: int | None = None) -> dict[str, float]:
        """The loss and all metrics over the loader's first epoch, or its first `steps` batches; the model is not
        changed.
        """
        check_ranks(loader, self.parallel.data_size)
        return evaluate(self, as_loader(loader, self.device, steps, ("the loader", "evaluate(loader, steps=...)")))

    @cached_property
    def int8_layers(self) -> Int8Layers | None:
        """The layers that compute in 8 bits in training steps; None if none do."""
        return Int8Layers(self.model, self.device) if self.precision == "int8_mixed" else None

    def autocast(self) -> AbstractContextManager[Any]:
        return autocast(self.device, self.precision)

    def saved_weights(self) -> AbstractContextManager[Any]:
        """The model has the weights that are saved within the `with` block: other ones for ScheduleFreeAdamW."""
        optimizer = self.optimizer
        return optimizer.eval_weights(self.model) if isinstance(optimizer, Optimizer) else nullcontext()

    def take_weights(self, checkpoint: Checkpoint) -> None:
        """Take the weights of a checkpoint, as it was validated, for good: to measure and write, not to train on."""
        self.drop_gradients()
        self.parallel.release_whole(self.model)
        with self.parallel.reading(checkpoint) as readable:
            if self.parallel.is_main or self.parallel.is_sharded:
                load_model(readable.part("model"), self.model)
                if self.ema is not None:
                    self.ema.load_record(readable.part("ema"))
                    self.ema.swap()
        self.parallel.share_weights(self.model)
        self.step, self._are_final = checkpoint.step, True

    @contextmanager
    def final_weights(self) -> Iterator[None]:
        """The model has the weights to be used within the `with` block: their average, where there is one."""
        self.parallel.release_whole(self.model)
        if self._are_final:  # those of the best checkpoint, as it was validated
            weights: AbstractContextManager[Any] = nullcontext()
        else:
            weights = self.saved_weights() if self.ema is None else self.ema.applied()
        with weights:
            try:
                yield
            finally:
                self.parallel.release_whole(self.model)

    def state(self, train_loader: Any) -> TrainingState:
        """Everything that the training needs to go on; the loader's position belongs to it."""
        parts = {"lr_scheduler": self.lr_scheduler, "ema": self.ema, "scaler": self.scaler}
        loader = as_loader(train_loader, self.device)
        return TrainingState(
            model=self.model,
            optimizer=self.optimizer,
            loader=loader,
            window=self.window,
            counters=Counters(self, loader),
            **{name: part for name, part in parts.items() if part is not None},
        )

    def load_checkpoint(self, checkpoint: Checkpoint, train_loader: Any) -> list[str]:
        """Go back to the state of a checkpoint; `fit` goes on from there.

        Returns notes on what does not go on as it was: nothing, but with another number of processes. A file that is
        missing or damaged is a CheckpointError, one of another model a RecordError, of other data a DataError.
        """
        self.drop_gradients()
        self.parallel.release_whole(self.model)  # or the next forward pass would compute with the old weights
        state = self.state(train_loader)
        counters: Counters = state.parts["counters"]
        state.load_records(checkpoint.records())
        # Of ScheduleFreeAdamW other weights are saved than those that its next step is taken with.
        if isinstance(self.optimizer, Optimizer):
            self.optimizer.use_training_weights(self.model)
        return counters.take_own()
