"""Layer normalization on the native op."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...module import Content
from ...ops import layer_norm
from ...ops._function import takes_references
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Ones, Zeros
from ..layer import Layer, expect_shape, exports_to_onnx, torch_name
from .configs import LayerNormConfig


class LayerNorm(KeepsType, Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last dimension (Ba et al. 2016, eq. 4).

    Torch: `nn.LayerNorm`.
    Differs: over the last dimension only; weights are `gamma` and `beta`; under autocast on CUDA the result has x's
    dtype, torch's is float32.

    Attributes:
        gamma, beta: `[d_model]`, ones and zeros at first; beta may be None.
    """

    gamma: nn.Parameter
    beta: nn.Parameter | None

    weight = torch_name("gamma")
    bias = torch_name("beta")
    eps = torch_name("epsilon")
    normalized_shape = property(lambda layer: tuple(layer.gamma.shape))

    def __init__(self, config: LayerNormConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Ones().init([config.d_model], device=device)
        self.beta = Zeros().init([config.d_model], device=device) if config.bias else None
        self.epsilon = config.epsilon

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`, in x's dtype."""
        shape = self.gamma.shape
        expect_shape(self, x, "...", shape[0])
        if exports_to_onnx() or takes_references():  # ONNX lacks the native op, a backend's tables have torch's
            return functional.layer_norm(x, shape, self.gamma, self.beta, self.epsilon)
        return layer_norm(x, self.gamma, self.beta, self.epsilon)

    def custom_content(self, content: Content) -> Content:
        (d_model,) = content.shape("gamma")
        return content.add("d_model", d_model).add("epsilon", self.epsilon).add("bias", content.has("beta"))
