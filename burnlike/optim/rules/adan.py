"""Adan: adaptive Nesterov momentum, which looks at the differences of gradients."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._torch_compat import foreach
from .configs import AdanConfig
from .foreach_optimizer import ForeachRule, advanced_roots


@dataclass(slots=True, eq=False)
class AdaptiveNesterovMomentumState:
    """Steps so far; means of gradients, of squares and of differences; the last gradient with its sign changed."""

    time: int
    exp_avg: Tensor
    exp_avg_sq: Tensor
    exp_avg_diff: Tensor
    neg_pre_grad: Tensor


@dataclass(slots=True, eq=False)
class AdanState:
    """State of one parameter, in Burn's form."""

    momentum: AdaptiveNesterovMomentumState


class Adan(ForeachRule[AdanConfig, AdanState]):
    """p -= lr * (m_hat + beta_2 * v_hat) / (sqrt(n_hat) + epsilon).

    m, v and n are exponential means of g, of d = g - last g, and of (g + beta_2 * d)^2.
    Xie et al. 2022, algorithm 1 (without restarts), with the betas counted the other way and each mean divided by
    1 - beta^t, as its authors' code does; burn-optim 0.22.1, adan.rs.
    """

    state_type = AdanState

    def first(self, tensor: Tensor) -> AdanState:
        return AdanState(AdaptiveNesterovMomentumState(0, *(torch.zeros_like(tensor) for _ in range(4))))

    def update(self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[AdanState]) -> None:
        config = self.config
        momenta = [state.momentum for state in states]
        for momentum, grad in zip(momenta, grads, strict=True):
            if momentum.time == 0:
                torch.neg(grad, out=momentum.neg_pre_grad)  # the first difference is 0
            momentum.time += 1
        times = [momentum.time for momentum in momenta]
        means, squares = [it.exp_avg for it in momenta], [it.exp_avg_sq for it in momenta]
        mean_differences, negatives = [it.exp_avg_diff for it in momenta], [it.neg_pre_grad for it in momenta]

        differences = foreach.add(negatives, grads)
        # Into the state's own tensors, as `update` may replace none: Burn keeps the last gradient with its sign
        # changed.
        foreach.copy_(negatives, grads)
        foreach.neg_(negatives)
        foreach.lerp_(means, grads, 1 - config.beta_1)
        foreach.lerp_(mean_differences, differences, 1 - config.beta_2)
        foreach.mul_(differences, config.beta_2)
        foreach.add_(differences, grads)
        roots = advanced_roots(squares, differences, config.beta_3, times, config.epsilon)
        if config.weight_decay and config.no_prox:
            foreach.mul_(tensors, 1 - lr * config.weight_decay)
        foreach.addcdiv_(tensors, means, roots, [-lr / (1 - config.beta_1**time) for time in times])
        by_difference = [-lr * config.beta_2 / (1 - config.beta_2**time) for time in times]
        foreach.addcdiv_(tensors, mean_differences, roots, by_difference)
        if config.weight_decay and not config.no_prox:
            foreach.div_(tensors, 1 + lr * config.weight_decay)
