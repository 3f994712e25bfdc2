"""Sgd: stochastic gradient descent, with or without momentum."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from ...ops import StepOptions, sgd_step_
from ...record.pytree import NOT_IN_LAYOUT
from .configs import SgdConfig
from .kernel_optimizer import KernelMoment, KernelOptimizer, Moment, ReadyStates


@dataclass(slots=True, eq=False)
class MomentumState:
    """A velocity of the parameter's shape; if it is in 8 bits, codes with their scales."""

    velocity: Tensor
    scales: Tensor | None = field(default=None, metadata=NOT_IN_LAYOUT)


@dataclass(slots=True, eq=False)
class SgdState:
    """State of one parameter, in Burn's form; there is one without momentum, too."""

    momentum: MomentumState | None = None


class Sgd(KernelOptimizer[SgdState]):
    """g + decay * p, then v = g at first, later momentum * v + (1 - dampening) * g; p = p - lr * v.

    With Nesterov's momentum p = p - lr * (g + momentum * v); burn-optim 0.22.1, sgd.rs and momentum.rs.
    """

    state_type = SgdState

    def __init__(self, config: SgdConfig) -> None:
        self.config = config
        self.moments = () if config.momentum is None else (Moment("velocity", config.velocity, "scales"),)

    def first(self, fields: dict[str, Tensor]) -> SgdState:
        return SgdState(MomentumState(**fields) if fields else None)

    def holder(self, state: SgdState) -> MomentumState | None:
        return state.momentum

    def update(
        self, lr: float, tensors: Sequence[Tensor], grads: Sequence[Tensor], states: ReadyStates, options: StepOptions
    ) -> None:
        factors = {}
        if (momentum := self.config.momentum) is not None:
            factors = {"momentum": momentum.momentum, "dampening": momentum.dampening, "nesterov": momentum.nesterov}
        (velocity,) = states.moments or (KernelMoment((), ()),)
        if options.skipped is not None:
            # Only the first of the times differs from the others, and it is never skipped on the device.
            options = replace(options, skipped=None)
        sgd_step_(
            tensors,
            grads,
            velocity.tensors,
            times=[1 if is_new else 2 for is_new in states.new] or [2] * len(tensors),
            lr=lr,
            **factors,
            weight_decay=self.config.weight_decay,
            scales=velocity.scales,
            options=options,
        )
