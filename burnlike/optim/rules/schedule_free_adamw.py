"""Schedule-free AdamW: an average of the weights takes the place of a falling rate.

There are three sequences: z, which AdamW's steps move; x, the average of z, to evaluate with; and y, between the two,
where gradients are taken. The module holds y, the state holds z, and x = y + (1 - 1 / beta_1) * (z - y).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._torch_compat import foreach
from ...errors import ArgumentError
from ..core.gradient_transform import computing_dtype
from .configs import ScheduleFreeAdamWConfig
from .foreach_optimizer import ForeachRule, advanced_roots


@dataclass(slots=True, eq=False)
class ScheduleFreeAdamWState:
    """State of one parameter: steps, largest rate and sum of the steps' weights in the average so far; z, and v.

    `training_weights` is y, kept while the module holds x; None while the module holds y.
    """

    time: int
    lr_max: float
    weight_sum: float
    z: Tensor
    exp_avg_sq: Tensor
    training_weights: Tensor | None = None


class ScheduleFreeAdamW(ForeachRule[ScheduleFreeAdamWConfig, ScheduleFreeAdamWState]):
    """u = g / (sqrt(v_hat) + epsilon) + weight_decay * y; z -= lr * u; x goes to z by c = w / sum(w) of the way.

    Then y = (1 - beta_1) * z + beta_1 * x. Defazio et al. 2024, "The Road Less Scheduled", algorithm 1, but with the
    bias of v taken out in the denominator, where the paper multiplies the rate by sqrt(1 - beta_2^t): as its authors'
    code does since, for it is more stable. w = t^r * lr_max^weight_lr_power.
    """

    state_type = ScheduleFreeAdamWState

    def first(self, tensor: Tensor) -> ScheduleFreeAdamWState:
        return ScheduleFreeAdamWState(0, 0.0, 0.0, tensor.clone(), torch.zeros_like(tensor))

    def check_states(self, states: Sequence[ScheduleFreeAdamWState | None]) -> None:
        """Refuse a step while the module holds the weights to evaluate with."""
        if any(state is not None and state.training_weights is not None for state in states):
            raise ArgumentError(
                "the module holds the weights to evaluate with, where no gradients are to be taken; call"
                " optimizer.use_training_weights(module) before training goes on. Nothing was changed"
            )

    def update(
        self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[ScheduleFreeAdamWState]
    ) -> None:
        config = self.config
        self.check_states(states)
        steps = [self._rate_and_share(lr, state) for state in states]
        squares, zs = [state.exp_avg_sq for state in states], [state.z for state in states]
        times = [state.time for state in states]
        roots = advanced_roots(squares, grads, config.beta_2, times, config.epsilon)
        if config.weight_decay:  # so that dividing by the roots gives the decay beside the normalized gradient
            grads = foreach.addcmul(grads, tensors, roots, value=config.weight_decay)
        # y is moved without x: the old z first, then the part of z's step that reaches y by itself and through x.
        foreach.lerp_(tensors, zs, [share for _, share in steps])
        by_step = [rate * (config.beta_1 * (1 - share) - 1) for rate, share in steps]
        foreach.addcdiv_(tensors, grads, roots, by_step)
        foreach.addcdiv_(zs, grads, roots, [-rate for rate, _ in steps])

    def _rate_and_share(self, lr: float, state: ScheduleFreeAdamWState) -> tuple[float, float]:
        """The rate of this step of a parameter, and the share of its result in the average; counts the step."""
        config = self.config
        state.time += 1
        rate = lr * min(1.0, state.time / config.warmup_steps) if config.warmup_steps else lr
        state.lr_max = max(state.lr_max, rate)
        weight = state.time**config.r * state.lr_max**config.weight_lr_power
        state.weight_sum += weight
        return rate, weight / state.weight_sum if state.weight_sum else 0.0

    def put_eval_weights(self, tensor: Tensor, state: ScheduleFreeAdamWState) -> bool:
        """Put x in place of y, which goes into the state as it is."""
        if state.training_weights is not None:
            return False
        # Kept as they are: computed back from x and z they would differ in their last bits, and a resumed run with
        # them.
        state.training_weights = tensor.detach().clone()
        wide = computing_dtype(tensor.dtype)
        y, z = tensor.to(wide), state.z.to(tensor.device, wide)
        tensor.copy_(y.lerp(z, 1 - 1 / self.config.beta_1))
        return True

    def put_training_weights(self, tensor: Tensor, state: ScheduleFreeAdamWState) -> bool:
        if state.training_weights is None:
            return False
        tensor.copy_(state.training_weights)
        state.training_weights = None
        return True
