"""AdaGrad: a rate for each value that falls with the squares of its gradients so far."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._torch_compat import foreach
from .configs import AdaGradConfig
from .foreach_optimizer import ForeachRule


@dataclass(slots=True, eq=False)
class LrDecayState:
    """Steps so far, and the sum of the gradients' squares."""

    time: int
    sum: Tensor


@dataclass(slots=True, eq=False)
class AdaGradState:
    """State of one parameter, in Burn's form."""

    lr_decay: LrDecayState


class AdaGrad(ForeachRule[AdaGradConfig, AdaGradState]):
    """sum += g^2; p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum) + epsilon).

    Duchi et al. 2011, section 1.1, with a diagonal matrix; burn-optim 0.22.1, adagrad.rs.
    """

    state_type = AdaGradState

    def first(self, tensor: Tensor) -> AdaGradState:
        return AdaGradState(LrDecayState(0, torch.zeros_like(tensor)))

    def update(self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[AdaGradState]) -> None:
        config = self.config
        decays = [state.lr_decay for state in states]
        sums = [decay.sum for decay in decays]
        if config.weight_decay:
            grads = foreach.add(grads, tensors, alpha=config.weight_decay)
        foreach.addcmul_(sums, grads, grads)
        roots = foreach.sqrt(sums)
        foreach.add_(roots, config.epsilon)
        foreach.addcdiv_(tensors, grads, roots, [-lr / (1 + decay.time * config.lr_decay) for decay in decays])
        for decay in decays:
            decay.time += 1
