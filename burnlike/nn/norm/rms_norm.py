"""Root mean square normalization on the native op."""

import torch
from torch import Tensor

from ...module import Content
from ...ops import rms_norm, rms_norm_reference
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Ones
from ..layer import Layer, expect_shape, exports_to_onnx, torch_name
from .configs import RmsNormConfig


class RmsNorm(KeepsType, Layer):
    """x / sqrt(mean(x^2) + epsilon) * gamma `[d_model]` over the last dimension (Zhang & Sennrich 2019, eq. 4).

    Torch: `nn.RMSNorm`.
    Differs: over the last dimension only; epsilon is 1e-5, torch's default the smallest step of the dtype; the weight
    is `gamma`.
    """

    weight = torch_name("gamma")
    eps = torch_name("epsilon")
    normalized_shape = property(lambda layer: tuple(layer.gamma.shape))

    def __init__(self, config: RmsNormConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Ones().init([config.d_model], device=device)
        self.epsilon = config.epsilon

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`, in x's dtype."""
        expect_shape(self, x, "...", self.gamma.shape[0])
        norm = rms_norm_reference if exports_to_onnx() else rms_norm
        return norm(x, self.gamma, self.epsilon)

    def custom_content(self, content: Content) -> Content:
        (d_model,) = content.shape("gamma")
        return content.add("d_model", d_model).add("epsilon", self.epsilon)
