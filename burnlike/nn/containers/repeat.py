"""One layer several times."""

from typing import Any

import torch

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..torch_counterpart import AnyLibrary
from .configs import RepeatConfig
from .sequential import run


class Repeat(AnyLibrary, Module):
    """One layer several times in a row, each with parameters of its own; the layers are its children 0, 1, 2.

    Torch: `nn.Sequential`.
    Differs: takes one config for all layers, and further inputs for each of them.
    """

    def __init__(self, config: RepeatConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        for number in range(config.times):
            self.add_module(str(number), config.layer_at(number).init(device))

    @lift
    def forward(self, x: Any, *others: Any, **named: Any) -> Any:
        """What the layer takes `->` what it gives, as often as it is there.

        Args:
            x: for the first layer; each of the others gets what the one before gives.
            others: given to all layers after their first input, as a memory or a mask.
            named: likewise, by name.
        """
        return run(self, x, *others, **named)
