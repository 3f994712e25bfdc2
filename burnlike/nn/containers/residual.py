"""A connection around layers."""

import torch
from torch import Tensor

from ...errors import ShapeError
from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..layer import shape_error
from ..torch_counterpart import AnyLibrary
from .configs import ResidualConfig, SequentialConfig
from .sequential import Sequential


class Residual(AnyLibrary, Module):
    """layers(x) + x (He et al. 2016, eq. 1), or layers(x) + shortcut(x) (eq. 2).

    Torch: -.

    Attributes:
        layers: a `Sequential`.
        shortcut: a layer, or None for x itself.
    """

    def __init__(self, config: ResidualConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.layers = Sequential(SequentialConfig(layers=config.layers), device)
        self.shortcut = None if config.shortcut is None else config.shortcut.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """What the first layer takes `->` what the last one gives.

        Raises:
            ShapeError: the two that are added have different shapes.
        """
        output = self.layers(x)
        kept = x if self.shortcut is None else self.shortcut(x)
        if output.shape != kept.shape:
            name = "x" if self.shortcut is None else "shortcut(x)"
            raise _differ(self, list(output.shape), list(kept.shape), name)
        return output + kept


def _differ(layer: Residual, output: list[int], kept: list[int], name: str) -> ShapeError:
    return shape_error(layer, f"the shape of what the layers give, {output}", kept, name=name)
