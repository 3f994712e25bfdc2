"""The gradients of a step, and the optimizer step with them: of any optimizer, with any schedule."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from ... import optim
from ..._torch_compat import foreach
from ...errors import ConfigError
from ...interop.torch_module_optimizer import TorchModuleOptimizer
from ...module import params
from ...optim.core.sharded import OtherStages, local
from ...optim.gradients.clipping import clip
from ..parallel.single_process import SingleProcess
from ..parallel.step_output import counting_nothing


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


class AdaptorUpdate:
    """Steps of an OptimizerAdaptor."""

    def __init__(
        self, model: nn.Module, optimizer: optim.OptimizerAdaptor[Any], schedule: optim.AnyLrScheduler[Any]
    ) -> None:
        optimizer.check(model)
        if isinstance(schedule, optim.ModuleLrScheduler) and optimizer.other_stages is None:
            schedule.check(model)
        self._model = model
        self._optimizer = optimizer
        self._schedule = schedule
        self._scaled: TorchModuleOptimizer | None = None  # what a scaler steps

    def step(self, divisor: float, scaler: torch.amp.GradScaler | None) -> float:
        """Divide the gradients by `divisor`, update the weights with them and drop them; returns the learning rate.

        Where gradients of a loss that `scaler` scaled overflowed, the weights stay as they are; so they do with a
        divisor of 0, of a step in which nothing counted.
        """
        lr = self._schedule.step()
        if divisor == 0.0:
            pass
        elif scaler is None:
            grads = optim.GradientsParams.from_module(self._model)
            self._optimizer.step(lr, self._model, grads, loss_scale=None if divisor == 1.0 else divisor)
        else:
            self._scaled = self._scaled or TorchModuleOptimizer(self._model, self._optimizer, 0.0)
            scaler.step(self._scaled, lr=lr, divisor=divisor)
            scaler.update()
            self._scaled.zero_grad()
        return lr.base if isinstance(lr, optim.ModuleLearningRate) else lr


class TorchUpdate:
    """Steps of one of torch's optimizers, with the interface of AdaptorUpdate."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        schedule: optim.AnyLrScheduler[Any] | LRScheduler | None,
        clipping: optim.GradientClipping | None,
        model: nn.Module,
        other_stages: OtherStages | None,
    ) -> None:
        self._model, self._other_stages = model, other_stages
        self._optimizer = optimizer
        self._schedule = schedule
        self._clipping = clipping
        self._is_stepped = False
        # A GradScaler does not say that it skips a step; then the schedule is not stepped either.
        optimizer.register_step_post_hook(self._note_step)

    def _note_step(self, *_: Any) -> None:
        self._is_stepped = True

    def step(self, divisor: float, scaler: torch.amp.GradScaler | None) -> float:
        if isinstance(self._schedule, optim.AnyLrScheduler):
            rate = self._schedule.step()
            for group in self._optimizer.param_groups:
                group["lr"] = rate
        lr = float(self._optimizer.param_groups[0]["lr"])
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
        if isinstance(self._schedule, LRScheduler) and self._is_stepped:  # not where gradients overflowed
            self._schedule.step()
        self._optimizer.zero_grad(set_to_none=True)
        return lr

    @torch.no_grad()
    def _change_gradients(self, divisor: float) -> None:
        trained = [it for group in self._optimizer.param_groups for it in group["params"] if it.grad is not None]
        grads: Sequence[Tensor] = [it.grad for it in trained]
        if divisor != 1.0 and grads:
            foreach.mul_(grads, 1.0 / divisor)
        if self._clipping is not None and self._other_stages is not None:
            param_ids = {id(it.tensor): it.id for it in params(self._model)}
            clipped = clip(self._clipping, grads, self._other_stages, [param_ids.get(id(it)) for it in trained])
            foreach.copy_([local(grad) for grad in grads], clipped)
        elif self._clipping is not None and grads:
            foreach.copy_([local(grad) for grad in grads], optim.clip(self._clipping, grads))


def make_update(
    model: nn.Module,
    optimizer: AnyOptimizer,
    schedule: Schedule,
    clipping: optim.GradientClipping | None,
    other_stages: OtherStages | None = None,
) -> tuple[AdaptorUpdate | TorchUpdate, optim.AnyLrScheduler[Any] | LRScheduler | None]:
    """The update of an optimizer, and the schedule, made where a rate was given; of a model or some stages of it."""
    if isinstance(schedule, int | float):
        schedule = optim.ConstantLrConfig(lr=float(schedule)).init()
    if isinstance(optimizer, optim.Lbfgs):
        raise ConfigError("optimizer: Lbfgs asks for the loss several times in a step; step it by a loop of your own")
    if isinstance(optimizer, optim.Optimizer):
        if not isinstance(schedule, optim.AnyLrScheduler):
            raise ConfigError(
                "lr_scheduler: an optimizer of burnlike is told the learning rate at each step; expected a rate such as"
                f" 1e-3, or a schedule of burnlike such as CosineAnnealingConfig(...).init(), got {schedule!r:.80}"
            )
        if not isinstance(optimizer, optim.OptimizerAdaptor):
            if isinstance(schedule, optim.ModuleLrScheduler):
                raise ConfigError("lr_scheduler: rates of groups are for an OptimizerAdaptor, which has groups")
            stepped = TorchModuleOptimizer(model, optimizer, 0.0)
            return TorchUpdate(stepped, schedule, clipping, model, other_stages), schedule
        if clipping is not None:
            raise ConfigError("grad_clipping: an optimizer of burnlike has its own; set it in the optimizer's config")
        return AdaptorUpdate(model, optimizer, schedule), schedule
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(
            "optimizer: expected one of burnlike, such as AdamWConfig().init() gives, or one of torch.optim, got"
            f" {optimizer!r:.80}"
        )
    if any(base.__name__ == "ZeroRedundancyOptimizer" for base in type(optimizer).__mro__):
        raise ConfigError(
            "optimizer: a checkpoint would have the states of one process, since ZeroRedundancyOptimizer divides them"
            " by itself; give the Learner the optimizer alone, and parallel=make_parallel(DistributedConfig("
            "strategy='fsdp2'), device), which divides states and parameters"
        )
    model_parameters = {id(it) for it in model.parameters()}
    if other_stages is None and not any(
        id(it) in model_parameters for group in optimizer.param_groups for it in group["params"]
    ):  # of more, it may train
        raise ConfigError(
            f"optimizer: none of the parameters of this {type(optimizer).__name__} is one of the model, a"
            f" {type(model).__name__}: they are of another model, or of this one before its parameters were replaced;"
            " make it from the parameters of the model that is trained"
        )
    _check_schedule(optimizer, schedule)
    return TorchUpdate(optimizer, schedule, clipping, model, other_stages), schedule


def _check_schedule(optimizer: torch.optim.Optimizer, schedule: Any) -> None:
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
