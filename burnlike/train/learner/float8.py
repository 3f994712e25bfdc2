"""Linear layers that compute in 8 bits, by torchao; parameters, records and the optimizer are as without."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ...errors import ConfigError
from ...interop.quantize import import_torchao
from .block_layers import linear_layers
from .configs import Float8Config

_MULTIPLE = 16
"""What kernels of matrix products in 8 bits need both sizes of a layer to be a multiple of."""
_LEAST_CAPABILITY = (8, 9)


class Float8Forward:
    """The forward of one linear layer; `twin` is torchao's layer of its sizes, which has no values of its own."""

    def __init__(self, layer: nn.Module, twin: nn.Module) -> None:
        self._forward, self._layer, self._twin = layer.forward, layer, twin

    def __call__(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return self._forward(x)
        weight: Any = self._layer.weight
        weights = {"weight": weight if isinstance(self._layer, nn.Linear) else weight.mT, "bias": self._layer.bias}
        return functional_call(self._twin, weights, (x,))


@contextmanager
def in_float8(model: nn.Module, config: Float8Config, device: torch.device) -> Iterator[list[str]]:
    """Let linear layers of the model's blocks compute in 8 bits within the `with` block; gives their paths.

    These are `nn.Linear` and burnlike's `Linear`, without adapters, whose sizes are multiples of 16; of a layer that
    `distributed.tensor` divides, those of a process's part. Scales are of what a process computes.

    Raises:
        ConfigError: torchao is not installed, the device has no matrix products in 8 bits, or no layer is such a one.
    """
    torchao = import_torchao("torchao.float8", "training.float8")
    if not config.emulate and not (
        device.type == "cuda" and torch.cuda.get_device_capability(device) >= _LEAST_CAPABILITY
    ):
        raise ConfigError(
            f"training.float8: {device} has no matrix products in 8 bits, which need a GPU of compute capability 8.9;"
            " leave it out, or set training.float8: {emulate: true}, which rounds in the same way and saves nothing"
        )
    found = linear_layers(model)
    layers = {path: layer for path, layer, sizes in found if not any(size % _MULTIPLE for size in sizes)}
    if not layers:
        raise ConfigError(
            "training.float8: the model's blocks have no linear layer whose sizes are multiples of 16; leave it out"
        )
    options = replace(torchao.Float8LinearConfig.from_recipe_name(config.recipe), emulate=config.emulate)
    for layer in layers.values():
        with torch.device("meta"):
            plain = nn.Linear(layer.in_features, layer.out_features, layer.bias is not None)
        vars(layer)["forward"] = Float8Forward(layer, torchao.convert_to_float8_training(plain, config=options))
    try:
        yield [*layers]
    finally:
        for layer in layers.values():
            vars(layer).pop("forward", None)
