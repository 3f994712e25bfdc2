"""Lamb: adaptive moments, each tensor's update scaled to the norm of the tensor."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._torch_compat import foreach
from ..core.sharded import wholes_of
from ..gradients.clipping import norms_of
from .configs import LambConfig
from .foreach_optimizer import ForeachRule, advanced_roots


@dataclass(slots=True, eq=False)
class LambState:
    """State of one parameter, in Burn's form: steps so far, and the moments."""

    time: int
    moment_1: Tensor
    moment_2: Tensor


class Lamb(ForeachRule[LambConfig, LambState]):
    """u = m_hat / (sqrt(v_hat) + epsilon) + weight_decay * p; p -= lr * (norm(p) / norm(u)) * u.

    You et al. 2020, algorithm 2, with the identity for phi; burn-optim 0.22.1, lamb.rs. The ratio has no upper bound,
    and is 1 where a norm is 0.
    """

    state_type = LambState
    elementwise = False
    exchanges = True

    def first(self, tensor: Tensor) -> LambState:
        return LambState(0, torch.zeros_like(tensor), torch.zeros_like(tensor))

    def update(self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[LambState]) -> None:
        config = self.config
        for state in states:
            state.time += 1
        means, squares = [state.moment_1 for state in states], [state.moment_2 for state in states]
        foreach.lerp_(means, grads, 1 - config.beta_1)
        times = [state.time for state in states]
        roots = advanced_roots(squares, grads, config.beta_2, times, config.epsilon)
        foreach.mul_(roots, [1 - config.beta_1**time for time in times])
        updates = foreach.div(means, roots)
        if config.weight_decay:
            foreach.add_(updates, tensors, alpha=config.weight_decay)
        if config.use_trust_ratio:
            # norm(tensor) / norm(update) of whole tensors; 1 where one of them is 0.
            sizes, steps = norms_of([*tensors, *updates], [*wholes_of(tensors)] * 2).chunk(2)
            ratios = sizes / steps.clamp(min=torch.finfo(steps.dtype).tiny)
            ratios = torch.where((sizes > 0) & (steps > 0), ratios, 1.0)
            foreach.addcmul_(tensors, updates, list(ratios.unbind()), value=-lr)
        else:
            foreach.sub_(tensors, updates, alpha=lr)
