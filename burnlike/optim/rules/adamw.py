"""AdamW: adaptive moments with decoupled weight decay."""

from dataclasses import dataclass

from torch import Tensor

from .adaptive_momentum import AdaptiveMomentum, AdaptiveMomentumState
from .configs import AdamWConfig


@dataclass(slots=True, eq=False)
class AdamWState:
    """State of one parameter, in Burn's form."""

    momentum: AdaptiveMomentumState


class AdamW(AdaptiveMomentum[AdamWState]):
    """m, v: exponential means of g and g^2; p = p * (1 - lr * decay) - lr * m_hat / (sqrt(v_hat) + epsilon).

    Loshchilov & Hutter 2019, algorithm 2, with the schedule multiplier folded into lr; burn-optim 0.22.1, adamw.rs.
    """

    state_type = AdamWState

    def __init__(self, config: AdamWConfig) -> None:
        super().__init__(config, config.weight_decay, cautious=config.cautious_weight_decay)

    def first(self, fields: dict[str, Tensor]) -> AdamWState:
        return AdamWState(AdaptiveMomentumState(0, **fields))
