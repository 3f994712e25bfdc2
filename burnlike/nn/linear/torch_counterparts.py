"""torch's counterparts of linear layers."""

from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike
from .configs import IdentityConfig, LinearConfig

COUNTERPARTS = [
    Counterpart(
        "Linear",
        nn.Linear,
        lambda it: LinearConfig(d_input=it.in_features, d_output=it.out_features, bias=it.bias is not None),
        lambda it, device: nn.Linear(*it.weight.shape, bias=it.bias is not None, device=device),
        {"weight": TensorSource("weight", transposed=True), "bias": TensorSource("bias")},
    ),
    alike(IdentityConfig, nn.Identity),
]
