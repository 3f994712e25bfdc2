"""Layers in a row."""

from typing import Any

import torch
from torch import nn

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..torch_counterpart import AnyLibrary
from .configs import SequentialConfig, named_parts


class Sequential(AnyLibrary, Module):
    """Layers in a row: each gets the output of the one before.

    The layers are its children, by the names they have in the config, or 0, 1, 2.

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
