"""RmsProp: gradients divided by the root of their mean square, with momentum."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._torch_compat import foreach
from .configs import RmsPropConfig
from .foreach_optimizer import ForeachRule


@dataclass(slots=True, eq=False)
class SquareAvgState:
    """The mean of the gradients' squares."""

    square_avg: Tensor


@dataclass(slots=True, eq=False)
class CenteredState:
    """The mean of the gradients, if it is subtracted, and what the root was taken of last.

    No step reads `avg`: it is what Burn keeps. Without `centered` it is the mean of the squares itself, not a copy.
    """

    grad_avg: Tensor | None
    avg: Tensor


@dataclass(slots=True, eq=False)
class RmsPropMomentumState:
    """The sum of the divided gradients."""

    buf: Tensor


@dataclass(slots=True, eq=False)
class RmsPropState:
    """State of one parameter, in Burn's form."""

    square_avg: SquareAvgState
    centered: CenteredState
    momentum: RmsPropMomentumState | None


class RmsProp(ForeachRule[RmsPropConfig, RmsPropState]):
    """s = alpha * s + (1 - alpha) * g^2; u = g / (sqrt(s) + epsilon); b = momentum * b + u; p -= lr * b.

    Hinton, Neural Networks for Machine Learning, lecture 6e; burn-optim 0.22.1, rmsprop.rs. With `centered` the square
    of the mean gradient is subtracted from s (Graves 2013, equations 38 to 45). Where rounding makes that negative it
    counts as 0; Burn and torch then give NaN.
    """

    state_type = RmsPropState

    def first(self, tensor: Tensor) -> RmsPropState:
        squares = torch.zeros_like(tensor)
        return RmsPropState(SquareAvgState(squares), CenteredState(None, squares), None)

    def update(self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[RmsPropState]) -> None:
        config = self.config
        if config.weight_decay:
            grads = foreach.add(grads, tensors, alpha=config.weight_decay)
        squares = [state.square_avg.square_avg for state in states]
        foreach.mul_(squares, config.alpha)
        foreach.addcmul_(squares, grads, grads, value=1 - config.alpha)
        spreads = squares
        if config.centered:
            for state in states:
                squared, centered = state.square_avg.square_avg, state.centered
                if centered.grad_avg is None:
                    centered.grad_avg = torch.zeros_like(squared)
                if centered.avg is squared:  # without `centered` it was the same tensor, which is not to be written
                    centered.avg = torch.zeros_like(squared)
            means = [state.centered.grad_avg for state in states]
            foreach.lerp_(means, grads, 1 - config.alpha)
            spreads = [state.centered.avg for state in states]
            foreach.copy_(spreads, squares)
            foreach.addcmul_(spreads, means, means, value=-1)
            foreach.clamp_min_(spreads, 0.0)
        else:
            for state in states:
                state.centered.grad_avg, state.centered.avg = None, state.square_avg.square_avg
        roots = foreach.sqrt(spreads)
        foreach.add_(roots, config.epsilon)
        if not config.momentum:
            foreach.addcdiv_(tensors, grads, roots, value=-lr)
            for state in states:
                state.momentum = None
            return
        for state in states:
            state.momentum = state.momentum or RmsPropMomentumState(torch.zeros_like(state.square_avg.square_avg))
        buffers = [state.momentum.buf for state in states if state.momentum]
        foreach.mul_(buffers, config.momentum)
        foreach.addcdiv_(buffers, grads, roots)
        foreach.sub_(tensors, buffers, alpha=lr)
