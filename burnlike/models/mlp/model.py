"""Multi-layer perceptrons."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

from ...module import Module
from ...nn.configs import DropoutConfig, LinearConfig
from ...nn.containers.containers import paired
from ...nn.layer import expect_shape
from ...tensor.torch_bridge.torch_function import lift
from .configs import MlpConfig


class Mlp(Module):
    """Linear layers, each but the last followed by norm, activation and dropout."""

    def __init__(self, config: MlpConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        hidden = config.all_sizes[1:-1]
        linear = LinearConfig(d_input=1, d_output=1, bias=config.bias, initializer=config.initializer)
        self.layers = nn.ModuleList(
            linear.replace(d_input=d_input, d_output=d_output).init(device)
            for d_input, d_output in pairwise(config.all_sizes)
        )
        self.norms = nn.ModuleList(config.norm.with_num_features(size).init(device) for size in hidden)
        self.activations = nn.ModuleList(config.activation.init(device) for _ in hidden)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.d_input = config.all_sizes[0]

    def parallel_plan(self) -> Mapping[str, str]:
        """The plan of two layers: processes share the values between, or, if a norm needs them all, first weights."""
        hidden = dict.fromkeys((f"layers.{number}" for number in range(len(self.norms))), "colwise_gather_output")
        return hidden | paired(self._in_order())

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, ..., d_input] -> [batch, ..., d_output]`: the first and the last of the sizes."""
        expect_shape(self, x, "...", self.d_input)
        *hidden, last = self.layers
        for layer, norm, activation in zip(hidden, self.norms, self.activations, strict=True):
            x = self.dropout(activation(norm(layer(x))))
        return last(x)

    def _in_order(self) -> Iterator[tuple[str, nn.Module]]:
        for number, layer in enumerate(self.layers):
            yield f"layers.{number}", layer
            if number < len(self.norms):
                yield f"norms.{number}", self.norms[number]
                yield f"activations.{number}", self.activations[number]
