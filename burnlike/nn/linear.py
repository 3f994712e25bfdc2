"""Linear layers."""

import sys

import torch
from torch import Tensor, nn

from ..module import Content
from ..module.adapters.layers import Dequantized, Lora, adapter_of
from ..ops import linear
from ..tensor.torch_bridge.torch_function import lift
from .call_types import KeepsType
from .configs import LinearConfig
from .layer import Layer, expect_shape
from .tensor_source import TensorSource
from .torch_counterpart import Counterpart

# Pickles of burnlike 0.1.0 name the module that this file was.
sys.modules[f"{__name__}.linear"] = sys.modules[__name__]


def transposed(weight: Tensor) -> Tensor:
    return weight.mT


class Linear(KeepsType, Layer):
    """y = x @ weight + bias.

    Torch: `nn.Linear`. Differs: the weight is `[d_input, d_output]`, torch's transpose.

    Attributes:
        weight: `[d_input, d_output]`; in records with the layout "col" `[d_output, d_input]`.
        bias: `[d_output]` or None.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None

    in_features = property(lambda layer: layer._own_weight().shape[0])
    out_features = property(lambda layer: layer._own_weight().shape[1])

    def __init__(self, config: LinearConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        d_input, d_output = config.d_input, config.d_output
        if config.layout == "row":
            self.weight = config.initializer.init([d_input, d_output], fan_in=d_input, fan_out=d_output, device=device)
        else:
            # Burn initializes what it stores, and so takes the rows for the inputs (burn-nn, linear.rs).
            stored = config.initializer.init([d_output, d_input], fan_in=d_output, fan_out=d_input, device=device)
            self.weight = torch.nn.Parameter(transposed(stored.detach()).contiguous())
            self.params()[0].load_mapper(transposed).save_mapper(transposed)
        fans = {"fan_in": d_input, "fan_out": d_output, "device": device}
        self.bias = config.initializer.init([d_output], **fans) if config.bias else None

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_input] -> [..., d_output]`. Raises ShapeError if the last dimension of x is not `d_input`."""
        adapted = adapter_of(self, Lora, Dequantized) if "parametrizations" in self._modules else None
        if adapted is not None:
            lora, base = adapted
            expect_shape(self, x, "...", base.shape[0])
            return lora.linear(x, base, self.bias)
        weight = self._own_weight()
        expect_shape(self, x, "...", weight.shape[0])
        return linear(x, weight.mT, self.bias)

    def _own_weight(self) -> Tensor:
        """The weight that `forward` computes with; a twin of torch's layer has another `weight` for other code."""
        return self.weight

    def custom_content(self, content: Content) -> Content:
        d_input, d_output = content.shape("weight")
        return content.add("d_input", d_input).add("d_output", d_output).add("bias", content.has("bias"))


def unmerged_weight(layer: Linear) -> Tensor:
    """The weight, or the tensor of its shape and type from which LoRA or rounding to bytes would compute it."""
    adapted = adapter_of(layer, Lora, Dequantized)
    return layer.weight if adapted is None else adapted[1]


class Identity(KeepsType, Layer):
    """y = x, in place of a layer that is left out. Torch: `nn.Identity`."""

    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`, x itself."""
        return x


COUNTERPARTS = [
    Counterpart(
        "Linear",
        nn.Linear,
        lambda it: LinearConfig(d_input=it.in_features, d_output=it.out_features, bias=it.bias is not None),
        lambda it, device: nn.Linear(*it.weight.shape, bias=it.bias is not None, device=device),
        {"weight": TensorSource("weight", transposed=True), "bias": TensorSource("bias")},
    ),
]
