"""Lion: steps by the sign of a moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from ...ops import StepOptions, lion_step_
from ...record.pytree import NOT_IN_LAYOUT
from .configs import LionConfig
from .kernel_optimizer import KernelOptimizer, Moment, ReadyStates


@dataclass(slots=True, eq=False)
class LionState:
    """State of one parameter, in Burn's form: a moment of its shape; if that is in 8 bits, codes with their scales."""

    momentum: Tensor
    scales: Tensor | None = field(default=None, metadata=NOT_IN_LAYOUT)


class Lion(KernelOptimizer[LionState]):
    """p = p * (1 - lr * decay) - lr * sign(beta_1 * m + (1 - beta_1) * g), then m = beta_2 * m + (1 - beta_2) * g.

    Chen et al. 2023, algorithm 2; burn-optim 0.22.1, lion.rs.
    """

    state_type = LionState

    def __init__(self, config: LionConfig) -> None:
        self.config = config
        self.moments = (Moment("momentum", config.moment, "scales"),)

    def update(
        self, lr: float, tensors: Sequence[Tensor], grads: Sequence[Tensor], states: ReadyStates, options: StepOptions
    ) -> None:
        config = self.config
        (moment,) = states.moments
        lion_step_(
            tensors,
            grads,
            moment.tensors,
            lr=lr,
            beta_1=config.beta_1,
            beta_2=config.beta_2,
            weight_decay=config.weight_decay,
            scales=moment.scales,
            options=options,
        )
