"""L-BFGS: steps along directions that follow from the last gradients, each of several evaluations of the loss.

The length of a step satisfies the strong Wolfe conditions: Nocedal & Wright 2006, algorithms 3.5 (bracketing) and 3.6
(zoom) with cubic interpolation, as in minFunc, torch and burn-optim (lbfgs.rs). Here a loss that is not finite counts
as too high: the step is shortened.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn

from ...errors import ArgumentError, RecordMismatchError, ShapeError, TrainingError
from ...record import Record
from ...record.methods import RecordMethods
from ...tensor.core.base import TensorBase
from ..core.state import inner_of
from ..gradients.gradients import GradientsParams
from ..optimizer import WarnsOfMissingGradients
from .configs import LbfgsConfig
from .state import FlatParameters, LbfgsState, state_of

_DECREASE = 1e-4
"""c1: the loss has to fall by this part of what the slope at the start promises."""
_CURVATURE = 0.9
"""c2: the slope has to fall to this part of that at the start."""


class Sample(NamedTuple):
    """A step length `t`, 0 at the start, with the loss, its flat gradient and its slope along the line there."""

    t: float
    loss: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Sample],
    start: Sample,
    t: float,
    *,
    largest: float,
    tolerance_change: float,
    max_iter: int,
) -> tuple[Sample, int]:
    """Search along a line: the best sample, which satisfies the conditions if the search ended in time, and the
    evaluations.

    `t` is tried first; `largest` is the magnitude of the largest value of the direction: an interval in which no value
    changes by more than `tolerance_change` is not divided further. After the first trial there are at most `max_iter`.
    """
    before, sample = start, evaluate(t)
    for count in range(max_iter):
        if not _is_low(sample, start) or (count > 1 and sample.loss >= before.loss):
            return _zoom(evaluate, start, [before, sample], count, largest, tolerance_change, max_iter)
        if _is_flat(sample, start):
            return sample, count + 1
        if sample.slope >= 0:
            return _zoom(evaluate, start, [before, sample], count, largest, tolerance_change, max_iter)
        # minFunc's bounds for a longer step: without them the cubic of two near points may ask for one that is far out.
        bounds = sample.t + 0.01 * (sample.t - before.t), sample.t * 10
        before, sample = sample, evaluate(_minimum(before, sample, bounds))
    return min(start, sample, key=_loss), max_iter + 1


def _zoom(
    evaluate: Callable[[float], Sample],
    start: Sample,
    bracket: list[Sample],
    count: int,
    largest: float,
    tolerance_change: float,
    max_iter: int,
) -> tuple[Sample, int]:
    """Narrow down an interval that holds a good point; `count` trials were made before."""
    low = _lower(bracket)
    was_close = False
    while count < max_iter and abs(bracket[1].t - bracket[0].t) * largest >= tolerance_change:
        t = _minimum(bracket[0], bracket[1])
        left, right = sorted(it.t for it in bracket)
        margin = 0.1 * (right - left)
        is_close = min(right - t, t - left) < margin
        if is_close and (was_close or t >= right or t <= left):
            # Twice near an end of the interval is no progress.
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            is_close = False
        was_close = is_close
        sample = evaluate(t)
        count += 1
        if not _is_low(sample, start) or not sample.loss < bracket[low].loss:
            bracket[1 - low] = sample
            low = _lower(bracket)
            continue
        if _is_flat(sample, start):
            return sample, count + 1
        if sample.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = sample
    return bracket[low], count + 1


def _is_low(sample: Sample, start: Sample) -> bool:
    """Armijo's condition; False for NaN."""
    return sample.loss <= start.loss + _DECREASE * sample.t * start.slope


def _is_flat(sample: Sample, start: Sample) -> bool:
    """The strong condition on the curvature."""
    return abs(sample.slope) <= -_CURVATURE * start.slope


def _loss(sample: Sample) -> float:
    return math.inf if math.isnan(sample.loss) else sample.loss


def _lower(bracket: list[Sample]) -> int:
    return 1 if _loss(bracket[1]) < _loss(bracket[0]) else 0


def _minimum(one: Sample, other: Sample, bounds: tuple[float, float] | None = None) -> float:
    return cubic_interpolate(one.t, one.loss, one.slope, other.t, other.loss, other.slope, bounds)


def cubic_interpolate(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """The minimum of the cubic through two points with slopes; Nocedal & Wright 2006, equation 3.59.

    It is cut to `bounds`, or to the interval between the points; where there is none, it is the middle of that.
    """
    lower, upper = bounds or (min(x1, x2), max(x1, x2))
    middle = (lower + upper) / 2
    try:
        d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
        d2_square = d1 * d1 - g1 * g2
        if not 0 <= d2_square < math.inf:
            return middle
        d2 = math.sqrt(d2_square)
        if x1 <= x2:
            place = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
        else:
            place = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    except ZeroDivisionError:
        return middle
    return min(max(place, lower), upper) if math.isfinite(place) else middle


Module = TypeVar("Module", bound=nn.Module)
Loss = float | Tensor | TensorBase
Closure = Callable[[Module], tuple[Loss, GradientsParams]]
"""Computes the loss of the module that it is given, and its gradients."""

_LEAST_CURVATURE = 1e-10
"""A pair enters the history only if displacement and change of the gradient have at least this product."""


class Lbfgs(RecordMethods, WarnsOfMissingGradients):
    """Minimizes an exact loss by L-BFGS; burn-optim 0.23.0-pre.1, lbfgs.rs, which is torch.optim.LBFGS by another name.

    It is no `Optimizer`: a step evaluates the loss several times, by a closure. The parameters are one vector, `state`
    is of the whole module. A parameter without gradient (frozen, or not used) keeps its value; after freezing or
    unfreezing take a new optimizer, since the history tells nothing about what was frozen. A step in torch's protocol
    is `step_closure`.

    Example:
        >>> from burnlike import nn
        >>> model, x = nn.LinearConfig(d_input=1, d_output=1).init(), torch.tensor([[1.0], [2.0], [3.0]])
        >>> def closure(model):
        ...     loss = (model(x) - (2 * x + 1)).square().sum()
        ...     loss.backward()
        ...     return loss, GradientsParams.from_module(model)
        >>> model, loss = LbfgsConfig(line_search_fn="StrongWolfe").init().step(1.0, model, closure)
        >>> loss < 1e-6
        True
    """

    def __init__(self, config: LbfgsConfig) -> None:
        self.config = config
        self.state = LbfgsState()
        self._is_placed = False  # whether the state is known to be of parameters that lie as the module's

    def step(self, lr: float, module: Module, closure: "Closure[Module]") -> tuple[Module, float]:
        """Up to `max_iter` iterations; `module` is updated in place. Returns it, and the loss that it has now (torch:
        before).

        On several ranks (DDP, `fully_shard`) the loss is averaged over them: each must be the mean over as many items.

        Args:
            lr: the step length; of the line search, the first one that is tried.
            closure: `closure(module) -> (loss, gradients)`; it sees trial values, and gradients are enabled. What its
                first call gives a gradient for is what moves.

        Raises:
            ArgumentError: the rate is no number >= 0, the closure returns something else, or gradients of another
                module.
            ShapeError: a gradient has another shape than its parameter, or the state another size than the module.
            RecordMismatchError: the parameters that a loaded state is of lie otherwise than the module's.
            DeviceError: the parameters are on several devices.
            TrainingError: the loss, or a gradient, is not finite at the start. On each error, also of the closure,
                module and state are as they were.
        """
        if not isinstance(lr, int | float) or not 0 <= lr < math.inf:
            raise ArgumentError(f"Lbfgs: expected a learning rate >= 0 for all parameters, got {lr!r}")
        flat = FlatParameters(module)
        if sizes := {vector.numel() for vector in self.state.vectors} - {flat.size}:
            raise ShapeError(
                f"Lbfgs: the state is of {sizes.pop()} values, the module has {flat.size}; it belongs to another module"
                " or to this one before it was changed: make a new optimizer. Nothing was changed"
            )
        layouts = self.state.layouts if self._is_placed else flat.check_layouts(self.state, "Lbfgs: the loaded state")
        loss, grads = _evaluated(closure, module)
        if grads.is_empty():
            self._without_gradients(module)
        flat.choose(grads)
        loss, gradient = flat.agreed(loss), flat.gradient(grads)
        largest = _largest(gradient)
        if not math.isfinite(loss) or not math.isfinite(largest):
            raise TrainingError(
                f"Lbfgs: the loss is {loss} and the largest value of the gradient {largest}; nothing was changed"
            )
        if largest <= self.config.tolerance_grad or lr == 0:  # at a minimum already, as torch ends then
            return module, loss
        before = flat.values()

        def evaluate(values: Tensor) -> tuple[float, Tensor]:
            flat.write(values)
            its_loss, its_grads = _evaluated(closure, module)
            return flat.agreed(its_loss), flat.gradient(its_grads)

        state = self.state.copy(flat.device, flat.dtype)
        try:
            with torch.no_grad():
                loss, values = self._iterate(lr, state, flat, evaluate, before, loss, gradient)
        except BaseException:  # also of the closure, and of Ctrl-C: the module holds trial values
            flat.write(before)
            raise
        flat.write(values)
        state.layouts = layouts
        self.state, self._is_placed = state, True
        return module, loss

    def step_closure(self, lr: float, module: nn.Module, closure: Callable[[], Any]) -> Any:
        """`step` in torch's protocol: `closure` computes the loss and leaves its gradients in `.grad`, where they are
        taken.

        Returns what the first call of the closure returned, as torch.optim.LBFGS does.
        """
        losses: list[Any] = []

        def evaluate(_: nn.Module) -> tuple[Any, GradientsParams]:
            loss = closure()
            losses[1:] = []  # the first one is returned; another would keep its graph
            losses.append(loss)
            return loss, GradientsParams.from_module(module)

        # The closures of torch's protocol call zero_grad themselves, or don't: what is left would be added to the first
        # gradient.
        GradientsParams.from_module(module)  # of an earlier backward pass
        self.step(lr, module, evaluate)
        return losses[0]

    def into_record(self) -> Record:
        return self.state.into_record()

    def to_record(self) -> Record:
        return self.into_record()

    def load_record(self, record: Record, module: nn.Module | None = None) -> Self:
        """Replace the state by that of `record`, of `into_record` or Burn's; returns the optimizer.

        It must be of the size of `module`, and of parameters that lie as its, as those of torch's layers and Burn's do
        not; without a module that is checked at the first step. On RecordMismatchError and
        RecordIOError the state is as before.
        """
        self.take_state(self.read_state(Record.of(record), module))
        return self

    def read_state(self, record: Record, module: nn.Module | None = None) -> LbfgsState:
        """A state for `load_record`, checked; nothing is changed yet."""
        state = state_of(record)
        state.forget(self.config.history_size)
        if module is not None and state.vectors:
            flat, state_size = FlatParameters(module), state.vectors[0].numel()
            if state_size != flat.size:
                raise RecordMismatchError(
                    f"{record.source} does not fit the module: its state is of {state_size} values, the module has"
                    f" {flat.size}. The optimizer is as it was"
                )
            flat.check_layouts(state, record.source)
        return state

    def take_state(self, state: LbfgsState) -> None:
        self.state, self._is_placed = state, False

    def _iterate(
        self,
        lr: float,
        state: LbfgsState,
        flat: FlatParameters,
        evaluate: Callable[[Tensor], tuple[float, Tensor]],
        values: Tensor,
        loss: float,
        gradient: Tensor,
    ) -> tuple[float, Tensor]:
        """Iterate from `values`, where the loss and gradient are known; the loss and the values at the end."""
        config = self.config
        evaluations = 1
        max_eval = config.max_iter * 5 // 4 if config.max_eval is None else config.max_eval
        for _ in range(config.max_iter):
            state.g_iter += 1
            d = self._direction(state, flat, gradient)
            state.d, state.prev_flat_grad, previous_loss = d, gradient, loss
            first = state.g_iter == 1
            # The first direction is the gradient itself, whose length says nothing about the distance to the minimum:
            # as in torch it is cut to a length of lr.
            state.t = lr * min(1.0, 1.0 / gradient.abs().sum().item()) if first else lr
            slope = gradient.dot(d).item()
            # Written so that a slope of NaN ends the step, too.
            if not slope <= -config.tolerance_change:
                break
            if config.line_search_fn is None:
                values = torch.add(values, d, alpha=state.t)
                loss, gradient = evaluate(values)
                evaluations += 1
            else:
                start = values

                def sample(t: float, start: Tensor = start, d: Tensor = d) -> Sample:
                    its_loss, its_gradient = evaluate(torch.add(start, d, alpha=t))
                    return Sample(t, its_loss, its_gradient, its_gradient.dot(d).item())

                best, count = strong_wolfe(
                    sample,
                    Sample(0.0, loss, gradient, slope),
                    state.t,
                    largest=_largest(d),
                    tolerance_change=config.tolerance_change,
                    max_iter=max_eval - evaluations,
                )
                state.t, loss, gradient = best.t, best.loss, best.gradient
                values = torch.add(start, d, alpha=state.t)
                evaluations += count
            if (
                evaluations >= max_eval
                or _largest(gradient) <= config.tolerance_grad
                or _largest(d) * state.t <= config.tolerance_change
                or not abs(loss - previous_loss) >= config.tolerance_change  # NaN ends it, too
            ):
                break
        state.prev_loss = loss
        return loss, values

    def _direction(self, state: LbfgsState, flat: FlatParameters, gradient: Tensor) -> Tensor:
        if state.g_iter == 1 or state.d is None or state.prev_flat_grad is None:
            state.history_s.clear()
            state.history_y.clear()
            return gradient.neg()
        y = flat.still(gradient - state.prev_flat_grad)
        s = flat.still(state.d * (1.0 if state.t is None else state.t))
        if y.dot(s).item() > _LEAST_CURVATURE:
            state.history_s.append(s)
            state.history_y.append(y)
            state.forget(self.config.history_size)
        return flat.still(state.direction(gradient))


def _largest(vector: Tensor) -> float:
    return vector.abs().max().item() if vector.numel() else 0.0


@torch.enable_grad()
def _evaluated(closure: Callable[[Any], Any], module: nn.Module) -> tuple[float, GradientsParams]:
    match result := closure(module):
        case (loss, GradientsParams() as grads):
            pass
        case _:
            types = ", ".join(type(it).__name__ for it in result) if isinstance(result, tuple) else ""
            raise ArgumentError(
                "Lbfgs: expected a closure that returns (loss, GradientsParams), got"
                f" {f'({types})' if isinstance(result, tuple) else type(result).__name__}; end it with `return loss,"
                " GradientsParams.from_module(module)`"
            )
    loss = inner_of(loss)
    if isinstance(loss, int | float) or (isinstance(loss, Tensor) and loss.numel() == 1):
        return float(loss.detach() if isinstance(loss, Tensor) else loss), grads
    shown = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    raise ArgumentError(f"Lbfgs: expected a closure whose loss is one number, got {shown}")
