"""Adam: adaptive moments."""

from dataclasses import dataclass

from torch import Tensor

from .adaptive_momentum import AdaptiveMomentum, AdaptiveMomentumState
from .configs import AdamConfig


@dataclass(slots=True, eq=False)
class AdamState:
    """State of one parameter, in Burn's form."""

    momentum: AdaptiveMomentumState


class Adam(AdaptiveMomentum[AdamState]):
    """g + decay * p, then m, v: exponential means of g and g^2; p = p - lr * m_hat / (sqrt(v_hat) + epsilon).

    Kingma & Ba 2015, algorithm 1, with L2 regularization; burn-optim 0.22.1, adam.rs.
    """

    state_type = AdamState

    def __init__(self, config: AdamConfig) -> None:
        super().__init__(config, config.weight_decay, coupled=True)

    def first(self, fields: dict[str, Tensor]) -> AdamState:
        return AdamState(AdaptiveMomentumState(0, **fields))
