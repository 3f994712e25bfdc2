"""Adam and AdamW: a state of two moments, and one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor

from ...ops import StepOptions, adamw_step_
from ...record.pytree import NOT_IN_LAYOUT
from .config_base import AdaptiveMomentumConfig
from .configs import AdamConfig, AdamWConfig
from .kernel_optimizer import KernelOptimizer, Moment, ReadyStates

State = TypeVar("State")


@dataclass(slots=True, eq=False)
class AdaptiveMomentumState:
    """Steps so far and the moments, each of the parameter's shape; of moments in 8 bits codes, with their scales."""

    time: int
    moment_1: Tensor
    moment_2: Tensor
    max_moment_2: Tensor | None = None
    scales_1: Tensor | None = field(default=None, metadata=NOT_IN_LAYOUT)
    scales_2: Tensor | None = field(default=None, metadata=NOT_IN_LAYOUT)


@dataclass(slots=True, eq=False)
class AdamState:
    """State of one parameter, in Burn's form."""

    momentum: AdaptiveMomentumState


@dataclass(slots=True, eq=False)
class AdamWState:
    """State of one parameter, in Burn's form."""

    momentum: AdaptiveMomentumState


class _AdaptiveMomentum(KernelOptimizer[State]):
    def __init__(
        self, config: AdaptiveMomentumConfig[Any], weight_decay: float, coupled: bool = False, cautious: bool = False
    ) -> None:
        """Make a rule whose decay is coupled, through the moments as Adam's, or cautious: where signs agree."""
        self.config = config
        self._decay = {"weight_decay": weight_decay, "coupled": coupled, "cautious": cautious}
        self.moments = (
            Moment("moment_1", config.moment_1, "scales_1"),
            Moment("moment_2", config.moment_2, "scales_2", is_signed=False),
        )
        if config.amsgrad:
            self.moments += (Moment("max_moment_2", config.moment_2),)

    def first(self, fields: dict[str, Tensor]) -> State:
        return self.state_type(AdaptiveMomentumState(0, **fields))

    def holder(self, state: Any) -> AdaptiveMomentumState:
        return state.momentum

    def take_back(self, states: Sequence[Any], steps: int) -> None:
        for state in states:
            state.momentum.time -= steps

    def update(
        self, lr: float, tensors: Sequence[Tensor], grads: Sequence[Tensor], states: ReadyStates, options: StepOptions
    ) -> None:
        config = self.config
        times = [holder.time + 1 for holder in states.holders]
        first, second, *largest = states.moments
        adamw_step_(
            tensors,
            grads,
            first.tensors,
            second.tensors,
            times=times,
            lr=lr,
            beta_1=config.beta_1,
            beta_2=config.beta_2,
            epsilon=config.epsilon,
            **self._decay,
            max_moments_2=largest[0].tensors if largest else None,
            scales_1=first.scales,
            scales_2=second.scales,
            options=options,
        )
        for holder, time in zip(states.holders, times, strict=True):
            holder.time = time


class Adam(_AdaptiveMomentum[AdamState]):
    """g + decay * p, then m, v: exponential means of g and g^2; p = p - lr * m_hat / (sqrt(v_hat) + epsilon).

    Kingma & Ba 2015, algorithm 1, with L2 regularization; burn-optim 0.22.1, adam.rs.
    """

    state_type = AdamState

    def __init__(self, config: AdamConfig) -> None:
        super().__init__(config, config.weight_decay, coupled=True)


class AdamW(_AdaptiveMomentum[AdamWState]):
    """m, v: exponential means of g and g^2; p = p * (1 - lr * decay) - lr * m_hat / (sqrt(v_hat) + epsilon).

    Loshchilov & Hutter 2019, algorithm 2, with the schedule multiplier folded into lr; burn-optim 0.22.1, adamw.rs.
    """

    state_type = AdamWState

    def __init__(self, config: AdamWConfig) -> None:
        super().__init__(config, config.weight_decay, cautious=config.cautious_weight_decay)
