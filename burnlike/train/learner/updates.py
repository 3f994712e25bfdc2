"""The gradients of a step, the step of any optimizer with them, by any schedule, and the average of the weights."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from ... import optim
from ..._torch_compat import foreach
from ...errors import ConfigError, RecordMismatchError
from ...interop.adapters.layers import has_adapters
from ...interop.torch_module_optimizer import TorchLbfgs, TorchModuleOptimizer
from ...module import params
from ...module.torch_objects.wrappers import is_distributed, part_of
from ...optim.core.gradient_transform import computing_dtype
from ...optim.core.sharded import OtherStages, local
from ...optim.gradients.clipping import clip
from ...record import Record
from ..parallel.single_process import SingleProcess
from ..parallel.step_output import counting_nothing
from .configs import EmaConfig


class Accumulation:
    """Weighs the losses of a step's batches.

    The gradient of a step is that of sum(size * loss) / sum(size). Each loss is multiplied by its size relative to the
    first one's, so that batches of equal size are added as they are, and the sum is divided at the end. Where several
    processes take the mean of their gradients, see `parallel.py`.
    """

    def __init__(self, parallel: SingleProcess) -> None:
        self._parallel = parallel
        self.clear()

    def weighed(self, loss: Tensor, size: float) -> Tensor | None:
        """The loss to differentiate; None for a batch of no items, whose loss is NaN.

        Where other processes wait for this one's gradients, a loss of no items counts 0.
        """
        self.count(size)
        if size == 0:
            return counting_nothing(loss) if self._parallel.mean_size > 1 else None
        return loss if size == self._reference else loss * (size / self._reference)

    def count(self, size: float) -> None:
        """Be told of a batch whose loss is weighed here, or by another process of a pipeline."""
        self._has_batches = True
        if self._reference == 0 and (size or self._parallel.mean_size > 1):
            self._reference = self._parallel.reference(size)
        self._total += size

    def divisor(self) -> float:
        """The number to divide gradients by, 0 if no batch of any process had an item; the sums begin anew."""
        (total,) = self._parallel.sums([self._total])
        divisor = total / (self._reference * self._parallel.mean_size) if total else float(not self._has_batches)
        self.clear()
        return divisor

    def clear(self) -> None:
        self._reference = self._total = 0.0
        self._has_batches = False


AnyOptimizer = optim.Optimizer | torch.optim.Optimizer
Schedule = optim.AnyLrScheduler[float] | optim.AnyLrScheduler[optim.ModuleLearningRate] | LRScheduler | float | None


class Update:
    """The steps of an optimizer of burnlike or of torch, with a schedule of either.

    Attributes:
        schedule: the learning rates, made where a rate was given; None leaves them to an optimizer of torch.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: AnyOptimizer,
        schedule: Schedule,
        clipping: optim.GradientClipping | None,
        other_stages: OtherStages | None = None,
    ) -> None:
        """Check that the parts fit one another, by ConfigErrors; `other_stages` if the model is some of its stages."""
        if isinstance(optimizer, optim.Lbfgs | TorchLbfgs | torch.optim.LBFGS):
            raise ConfigError(
                f"optimizer: {type(optimizer).__name__} asks for the loss several times in a step; step it by a loop of"
                " your own"
            )
        if isinstance(schedule, int | float):
            schedule = optim.ConstantLrConfig(lr=float(schedule)).init()
        if isinstance(optimizer, optim.Optimizer):
            _check_ours(optimizer, schedule, clipping)
        else:
            _check_torchs(model, optimizer, schedule, other_stages)
        self._model, self._clipping, self._other_stages = model, clipping, other_stages
        self.schedule = schedule
        self._adaptor = optimizer if isinstance(optimizer, optim.OptimizerAdaptor) else None
        if self._adaptor is not None:
            self._adaptor.check(model)
            if isinstance(schedule, optim.ModuleLrScheduler) and self._adaptor.other_stages is None:
                schedule.check(model)
            self._optimizer: Any = None  # made for a scaler, which steps torch's alone
            return
        self._optimizer = (
            TorchModuleOptimizer(model, optimizer, 0.0) if isinstance(optimizer, optim.Optimizer) else optimizer
        )
        self._is_stepped = False
        # A GradScaler does not say that it skips a step; then the schedule is not stepped either.
        self._optimizer.register_step_post_hook(self._note_step)

    def _note_step(self, *_: Any) -> None:
        self._is_stepped = True

    def step(self, divisor: float, scaler: torch.amp.GradScaler | None) -> float:
        """Divide the gradients by `divisor`, update the weights with them and drop them; returns the learning rate.

        Where gradients of a loss that `scaler` scaled overflowed, the weights stay as they are; so they do with a
        divisor of 0, of a step in which nothing counted.
        """
        lr: Any = self.schedule.step() if isinstance(self.schedule, optim.AnyLrScheduler) else None
        if self._adaptor is None:
            return self._step_torchs(lr, divisor, scaler)
        if divisor != 0.0 and scaler is None:
            grads = optim.GradientsParams.from_module(self._model)
            self._adaptor.step(lr, self._model, grads, loss_scale=None if divisor == 1.0 else divisor)
        elif divisor != 0.0 and scaler is not None:
            self._optimizer = self._optimizer or TorchModuleOptimizer(self._model, self._adaptor, 0.0)
            scaler.step(self._optimizer, lr=lr, divisor=divisor)
            scaler.update()
            self._optimizer.zero_grad()
        return lr.base if isinstance(lr, optim.ModuleLearningRate) else lr

    def _step_torchs(self, rate: float | None, divisor: float, scaler: torch.amp.GradScaler | None) -> float:
        groups = self._optimizer.param_groups
        for group in groups if rate is not None else ():
            group["lr"] = rate
        lr = float(groups[0]["lr"])  # of this step: a schedule of torch changes it below
        divisor = divisor or 1.0  # without gradients the optimizer changes nothing, and counts the step
        if divisor != 1.0 or self._clipping is not None:
            if scaler is not None:
                scaler.unscale_(self._optimizer)
            self._change_gradients(divisor)
        self._is_stepped = False
        if scaler is None:
            self._optimizer.step()
        else:
            scaler.step(self._optimizer)
            scaler.update()
        if isinstance(self.schedule, LRScheduler) and self._is_stepped:  # not where gradients overflowed
            self.schedule.step()
        self._optimizer.zero_grad(set_to_none=True)
        return lr

    @torch.no_grad()
    def _change_gradients(self, divisor: float) -> None:
        trained = [it for group in self._optimizer.param_groups for it in group["params"] if it.grad is not None]
        grads: Sequence[Tensor] = [it.grad for it in trained]
        if divisor != 1.0 and grads:  # foreach: one call for all, not a kernel for each parameter
            foreach.mul_(grads, 1.0 / divisor)
        if self._clipping is not None and self._other_stages is not None:
            param_ids = {id(parameter.tensor): parameter.id for parameter in params(self._model)}
            clipped = clip(self._clipping, grads, self._other_stages, [param_ids.get(id(it)) for it in trained])
            foreach.copy_([local(grad) for grad in grads], clipped)
        elif self._clipping is not None and grads:
            foreach.copy_([local(grad) for grad in grads], optim.clip(self._clipping, grads))


def _check_ours(optimizer: optim.Optimizer, schedule: Any, clipping: optim.GradientClipping | None) -> None:
    if not isinstance(schedule, optim.AnyLrScheduler):
        raise ConfigError(
            "lr_scheduler: an optimizer of burnlike is told the learning rate at each step; expected a rate such as"
            f" 1e-3, or a schedule of burnlike such as CosineAnnealingConfig(...).init(), got {schedule!r:.80}"
        )
    is_adaptor = isinstance(optimizer, optim.OptimizerAdaptor)
    if not is_adaptor and isinstance(schedule, optim.ModuleLrScheduler):
        raise ConfigError("lr_scheduler: rates of groups are for an OptimizerAdaptor, which has groups")
    if is_adaptor and clipping is not None:
        raise ConfigError("grad_clipping: an optimizer of burnlike has its own; set it in the optimizer's config")


def _check_torchs(model: nn.Module, optimizer: Any, schedule: Any, other_stages: OtherStages | None) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(
            "optimizer: expected one of burnlike, such as AdamWConfig().init() gives, or one of torch.optim, got"
            f" {optimizer!r:.80}"
        )
    kind = type(optimizer)
    if any(base.__name__ == "ZeroRedundancyOptimizer" for base in kind.__mro__):
        raise ConfigError(
            "optimizer: a checkpoint would have the states of one process, since ZeroRedundancyOptimizer divides them"
            " by itself; give the Learner the optimizer alone, and parallel=make_parallel(DistributedConfig("
            "strategy='fsdp2'), device), which divides states and parameters"
        )
    trained = {id(it) for group in optimizer.param_groups for it in group["params"]}
    if other_stages is None and trained.isdisjoint(map(id, model.parameters())):  # of more, it may train
        raise ConfigError(
            f"optimizer: none of the parameters of this {kind.__name__} is one of the model, a {type(model).__name__}:"
            " they are of another model, or of this one before its parameters were replaced; make it from the"
            " parameters of the model that is trained"
        )
    if isinstance(schedule, optim.ModuleLrScheduler):
        raise ConfigError("lr_scheduler: rates of groups are for optimizers of burnlike; torch's have param_groups")
    if schedule is None or isinstance(schedule, optim.AnyLrScheduler):
        return
    if not isinstance(schedule, LRScheduler):
        raise ConfigError(
            "lr_scheduler: expected a schedule of burnlike, such as CosineAnnealingConfig(...).init(), one of"
            f" torch.optim.lr_scheduler, or a rate, got {schedule!r:.80}"
        )
    if isinstance(schedule, ReduceLROnPlateau):
        raise ConfigError(
            "lr_scheduler: ReduceLROnPlateau is stepped with a metric, and a Learner steps schedules once for each"
            " optimizer step, without one; leave it out here, and step it in a callback's on_metrics(learner, line)"
            " where line['split'] is 'valid'"
        )
    if getattr(schedule, "optimizer", optimizer) is not optimizer:
        raise ConfigError(f"lr_scheduler: this {type(schedule).__name__} is of another optimizer; make it of this one")


def _widened(weight: Tensor) -> Tensor:
    return weight.detach().to(computing_dtype(weight.dtype))


class Ema:
    """Averages of the weights after `steps` steps; buffers, such as running statistics, are the model's own.

    Those of float16 and bfloat16 are kept in float32, as small steps of an average would be rounded away.
    """

    def __init__(self, model: nn.Module, config: EmaConfig | None = None) -> None:
        self.config = config or EmaConfig()
        self.steps = 0
        # Of adapters alone: what they are added to is frozen.
        trained = [it for it in params(model) if it.tensor.requires_grad or not has_adapters(model)]
        weights = [it for it in trained if it.tensor.is_floating_point() or it.tensor.is_complex()]
        # Handles: `load_state_dict(assign=True)` and the like put other tensors in their place.
        self._weights = {param.path: param for param in weights if isinstance(param.tensor, nn.Parameter)}
        self._averages = {name: _widened(param.tensor).clone() for name, param in self._weights.items()}
        self._kept: dict[str, Tensor] = {}  # weights of 16 bits while the model has the averages

    @torch.no_grad()
    def update(self) -> None:
        decay = self.config.decay
        if self.config.warmup:
            decay = min(decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        weights = [_widened(param.tensor) for param in self._weights.values()]
        foreach.lerp_([*self._averages.values()], weights, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the averages for weights within the `with` block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights of the model and their averages."""
        # In place, one after the other: the optimizer and wrappers of processes have these tensors, and a copy of all
        # weights may not fit.
        for name, param in self._weights.items():
            weight, average, kept = param.tensor, self._averages[name], self._kept.pop(name, None)
            if kept is not None:
                weight.copy_(kept)
                continue
            kept = weight.detach().clone()
            weight.copy_(average)
            if average.dtype == weight.dtype:
                average.copy_(kept)
            else:  # which would round the average
                self._kept[name] = kept

    def into_record(self) -> Record:
        return Record(dict(self._averages), {"steps": self.steps}, source="the record of the average of the weights")

    @torch.no_grad()
    def load_record(self, record: Record) -> Self:
        """Go on from a saved average; one of other parameters is a RecordMismatchError, and nothing has changed."""
        averages: dict[str, Tensor] = dict(record.tensors)
        for name, average in self._averages.items():
            if name not in averages or averages[name].shape != average.shape:
                there = "none" if name not in averages else f"one of the shape {list(averages[name].shape)}"
                raise RecordMismatchError(
                    f"{record.source}: expected an average of '{name}' of the shape {list(average.shape)}, got {there}"
                )
        for name, average in self._averages.items():
            average.copy_(part_of(averages[name], average) if is_distributed(average) else averages[name])
        self._kept.clear()
        self.steps = int(record.values["steps"])
        return self
