"""Random numbers of a process alone, between those that all processes of a layer draw alike."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

_LAST_SEED = 2**62
_NAMES = ("p", "prob")


class OwnDraws:
    """Between `begin` and `end` torch's generators give other numbers in each process.

    The seed comes from the common generator, so that these numbers are repeated where that one's state is restored, as
    by a checkpoint of activations and by a resumed training.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        self._mesh = mesh
        self._common: list[tuple[Any, Tensor]] = []

    def begin(self, inputs: tuple[Any, ...]) -> None:
        """Draw apart, by the generators of the CPU and of the first input's device."""
        seed = int(torch.randint(_LAST_SEED, ())) + self._mesh.get_local_rank()
        generators = [torch.default_generator]
        if inputs and isinstance(inputs[0], Tensor) and inputs[0].is_cuda:
            generators.append(torch.cuda.default_generators[inputs[0].get_device()])
        for generator in generators:
            self._common.append((generator, generator.get_state()))
            generator.manual_seed(seed)

    def end(self) -> None:
        for generator, state in self._common:
            generator.set_state(state)
        self._common.clear()


def draws_in_training(module: nn.Module) -> bool:
    """Whether a module, or one in it, has a probability of dropping values."""
    return any(
        isinstance(value, float) and value > 0 and ("drop" in name or name in _NAMES)
        for part in module.modules()
        for name, value in vars(part).items()
    )
