"""Multi-layer perceptrons."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from ...module import Module
from ...nn.dropout.configs import DropoutConfig
from ...nn.layer import expect_shape
from ...nn.linear.configs import LinearConfig
from ...tensor.torch_bridge.torch_function import lift
from .configs import MlpConfig


class Mlp(Module):
    """Linear layers, each but the last followed by norm, activation and dropout."""

    def __init__(self, config: MlpConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        hidden = config.sizes[1:-1]
        linear = LinearConfig(d_input=1, d_output=1, bias=config.bias, initializer=config.initializer)
        self.layers = nn.ModuleList(
            linear.replace(d_input=d_input, d_output=d_output).init(device)
            for d_input, d_output in pairwise(config.sizes)
        )
        self.norms = nn.ModuleList(config.norm.with_num_features(size).init(device) for size in hidden)
        self.activations = nn.ModuleList(config.activation.init(device) for _ in hidden)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.d_input = config.sizes[0]

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, ..., d_input] -> [batch, ..., d_output]`: the first and the last of the sizes."""
        expect_shape(self, x, "...", self.d_input)
        *hidden, last = self.layers
        for layer, norm, activation in zip(hidden, self.norms, self.activations, strict=True):
            x = self.dropout(activation(norm(layer(x))))
        return last(x)
