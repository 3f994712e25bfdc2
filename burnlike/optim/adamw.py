"""AdamW: adaptive moments with decoupled weight decay."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from ..errors import DeviceError
from ..ops import adamw_step_
from .adamw_config import AdamWConfig
from .simple_optimizer import SimpleOptimizer
from .state import to_device


@dataclass(slots=True, eq=False)
class AdaptiveMomentumState:
    """Steps so far and the moments, each of the parameter's shape."""

    time: int
    moment_1: Tensor
    moment_2: Tensor
    max_moment_2: Tensor | None = None


@dataclass(slots=True, eq=False)
class AdamWState:
    """State of one parameter, in Burn's form."""

    momentum: AdaptiveMomentumState


class AdamW(SimpleOptimizer[AdamWState]):
    """m, v: exponential means of g and g^2; p = p * (1 - lr * decay) - lr * m_hat / (sqrt(v_hat) + epsilon).

    Loshchilov & Hutter 2019, algorithm 2, with the schedule multiplier folded into lr; burn-optim 0.22.1, adamw.rs.
    """

    state_type = AdamWState

    def __init__(self, config: AdamWConfig) -> None:
        self.config = config

    def step(self, lr: float, tensor: Tensor, grad: Tensor, state: AdamWState | None) -> tuple[Tensor, AdamWState]:
        """One update of one tensor; see `SimpleOptimizer.step`."""
        values = tensor.clone()
        if state is not None:
            old = state.momentum
            largest = None if old.max_moment_2 is None else old.max_moment_2.clone()
            state = AdamWState(AdaptiveMomentumState(old.time, old.moment_1.clone(), old.moment_2.clone(), largest))
        (state,) = self.step_many(lr, [values], [grad], [state])
        return values, state

    @torch.no_grad()
    def step_many(
        self, lr: float, tensors: Sequence[Tensor], grads: Sequence[Tensor], states: Sequence[AdamWState | None]
    ) -> Sequence[AdamWState]:
        """One native call for all tensors; values and states are updated in place."""
        ready = states
        if None in states:
            ready = [state or self._first(tensor) for tensor, state in zip(tensors, states, strict=True)]
        ready = cast(Sequence[AdamWState], ready)
        try:
            self._update(lr, tensors, grads, ready)
        except DeviceError:  # the module was moved, or the states were loaded
            ready = [to_device(state, tensor.device) for tensor, state in zip(tensors, ready, strict=True)]
            self._update(lr, tensors, grads, ready)
        return ready

    def _update(
        self, lr: float, tensors: Sequence[Tensor], grads: Sequence[Tensor], states: Sequence[AdamWState]
    ) -> None:
        config = self.config
        momenta = [state.momentum for state in states]
        times = [momentum.time + 1 for momentum in momenta]
        if config.amsgrad:
            for momentum in momenta:
                if momentum.max_moment_2 is None:
                    momentum.max_moment_2 = torch.zeros_like(momentum.moment_2)
        adamw_step_(
            tensors,
            grads,
            [momentum.moment_1 for momentum in momenta],
            [momentum.moment_2 for momentum in momenta],
            lr=lr,
            beta_1=config.beta_1,
            beta_2=config.beta_2,
            epsilon=config.epsilon,
            weight_decay=config.weight_decay,
            times=times,
            cautious=config.cautious_weight_decay,
            max_moments_2=[momentum.max_moment_2 for momentum in momenta] if config.amsgrad else None,  # pyright: ignore[reportArgumentType]
        )
        for momentum, time in zip(momenta, times, strict=True):
            momentum.time = time

    @staticmethod
    def _first(tensor: Tensor) -> AdamWState:
        # float16 can't hold the squares of usual gradients, so moments are kept in float32 at least.
        dtype = torch.promote_types(tensor.dtype, torch.float32)
        zeros = torch.zeros_like(tensor, dtype=dtype, memory_format=torch.contiguous_format)
        return AdamWState(AdaptiveMomentumState(0, zeros, torch.zeros_like(zeros)))
