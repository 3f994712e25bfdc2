"""Layers in a row: different ones, one several times, and with a connection around them."""

from typing import Any

import torch
from torch import Tensor, nn

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..layer import shape_error
from ..torch_counterpart import AnyLibrary
from .configs import RepeatConfig, ResidualConfig, SequentialConfig, named_parts


class Sequential(AnyLibrary, Module):
    """Layers in a row, its children by their names or 0, 1, 2: each gets the output of the one before.

    Torch: `nn.Sequential`.
    """

    def __init__(self, config: SequentialConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        for name, layer in named_parts(config.layers).items():
            self.add_module(name, layer.init(device))

    @lift
    def forward(self, x: Any) -> Any:
        """What the first layer takes `->` what the last one gives."""
        return run(self, x)


def run(layers: nn.Module, x: Any, *others: Any, **named: Any) -> Any:
    """`x` through the children of a module, one after the other; all other inputs go to each of them."""
    for layer in layers.children():
        x = layer(x, *others, **named)
    return x


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

        Each layer gets as x what the one before gives. Other inputs, as a memory or a mask, are given to all layers.
        """
        return run(self, x, *others, **named)


class Residual(AnyLibrary, Module):
    """layers(x) + x (He et al. 2016, eq. 1), or layers(x) + shortcut(x) (eq. 2). Torch: -."""

    def __init__(self, config: ResidualConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.layers = Sequential(SequentialConfig(layers=config.layers), device)
        self.shortcut = None if config.shortcut is None else config.shortcut.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """What the first layer takes `->` what the last one gives. ShapeError if the summands differ in shape."""
        output = self.layers(x)
        kept = x if self.shortcut is None else self.shortcut(x)
        if output.shape != kept.shape:
            name = "x" if self.shortcut is None else "shortcut(x)"
            expected = f"the shape of what the layers give, {list(output.shape)}"
            raise shape_error(self, expected, list(kept.shape), name=name)
        return output + kept
