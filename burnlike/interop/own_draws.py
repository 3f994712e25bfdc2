"""Random numbers of a process alone, between those that all processes of a layer draw alike."""

from typing import Any

import torch
from torch import Tensor, nn

_LAST_SEED = 2**62
_NAMES = ("p", "prob")


class OwnDraws:
    """Which numbers torch's generators give, in a model that several processes share.

    The seed of a process's own numbers comes from the common generator, so that they are repeated where that one's
    state is restored, as by a checkpoint of activations and by a resumed training.
    """

    def __init__(self) -> None:
        self._common: list[_States] = []
        self._own: list[_States] = []

    def begin(self, inputs: tuple[Any, ...], rank: int) -> None:
        """Draw numbers of this process alone, by the generators of the CPU and of the first input's device."""
        seed = int(torch.randint(_LAST_SEED, ())) + rank
        self._common.append(_states(inputs))
        for generator, _ in self._common[-1]:
            generator.manual_seed(seed)

    def end(self) -> None:
        _restore(self._common.pop())

    def begin_common(self, inputs: tuple[Any, ...]) -> bool:
        """Draw again what all processes draw, of what they all have; returns whether own numbers were drawn."""
        if self._common:
            self._own.append(_states(inputs))
            _restore(self._common[-1])
        return bool(self._common)

    def end_common(self) -> None:
        self._common[-1] = [(generator, generator.get_state()) for generator, _ in self._common[-1]]
        _restore(self._own.pop())


_States = list[tuple[Any, Tensor]]
"""Generators, and a state of each."""


def _states(inputs: tuple[Any, ...]) -> _States:
    generators = [torch.default_generator]
    if inputs and isinstance(inputs[0], Tensor) and inputs[0].is_cuda:
        generators.append(torch.cuda.default_generators[inputs[0].get_device()])
    return [(it, it.get_state()) for it in generators]


def _restore(states: _States) -> None:
    for generator, state in states:
        generator.set_state(state)


def draws_in_training(module: nn.Module) -> bool:
    """Whether a module, or one in it, has a probability of dropping values."""
    return any(
        isinstance(value, float) and value > 0 and ("drop" in name or name in _NAMES)
        for part in module.modules()
        for name, value in vars(part).items()
    )
