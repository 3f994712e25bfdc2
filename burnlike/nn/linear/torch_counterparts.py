"""torch's counterparts of linear layers."""

import torch
from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart
from .configs import IdentityConfig, LinearConfig
from .linear import Linear


def _config(layer: nn.Linear) -> LinearConfig:
    return LinearConfig(d_input=layer.in_features, d_output=layer.out_features, bias=layer.bias is not None)


def _build(layer: Linear, device: torch.device) -> nn.Linear:
    return nn.Linear(*layer.weight.shape, bias=layer.bias is not None, device=device)


COUNTERPARTS = [
    Counterpart(
        "Linear",
        nn.Linear,
        _config,
        _build,
        {"weight": TensorSource("weight", transposed=True), "bias": TensorSource("bias")},
    ),
    Counterpart("Identity", nn.Identity, lambda _: IdentityConfig(), lambda _, device: nn.Identity()),
]
