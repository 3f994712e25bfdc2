"""Training steps whose linear layers compute in 8 bits; weights, gradients, records and the optimizer stay floats."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ConfigError
from ...ops import int8_linear
from ...ops.int8_linear import DTYPES
from .block_layers import linear_layers


class _Forward:
    """The forward of one layer."""

    def __init__(self, layer: Any) -> None:
        self._forward, self._layer = layer.forward, layer

    def __call__(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return self._forward(x)
        layer = self._layer
        return int8_linear(x, layer.weight if isinstance(layer, nn.Linear) else layer.weight.mT, layer.bias)


class Int8Layers:
    """The linear layers of a model's blocks that compute in 8 bits; embeddings and the head do not.

    Raises:
        ConfigError: on a GPU, for weights that are neither float32 nor bfloat16, or without such a layer.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        if device.type != "cpu":
            raise ConfigError(
                f"training.precision: int8_mixed computes on a CPU, got {device}; set device: cpu, or take bfloat16 or"
                " training.float8"
            )
        layers = {path: layer for path, layer, _ in linear_layers(model)}
        for path, layer in layers.items():
            if layer.weight.dtype not in DTYPES:
                dtype = str(layer.weight.dtype).removeprefix("torch.")
                raise ConfigError(
                    f"training.precision: int8_mixed takes weights in float32 or bfloat16, {path}.weight is {dtype}"
                )
        if not layers:
            raise ConfigError(
                "training.precision: int8_mixed: the model's blocks have no linear layer of torch or burnlike without"
                " an adapter; take bfloat16"
            )
        self.paths = [*layers]
        self._forwards = [(layer, _Forward(layer)) for layer in layers.values()]

    @property
    def note(self) -> str:
        """For the beginning of a run."""
        known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.11 has none
        is_slow = bool(known) and not (known.get("avx512_vnni") or known.get("avx_vnni"))
        slow = "; this CPU has no VNNI, so bfloat16 is many times faster" if is_slow else ""
        return f"int8      {len(self.paths)} linear layers, others in bfloat16{slow}"

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A `with` block in which they do, in both passes."""
        for layer, forward in self._forwards:
            vars(layer)["forward"] = forward
        try:
            yield
        finally:
            for layer, _ in self._forwards:
                vars(layer).pop("forward", None)
