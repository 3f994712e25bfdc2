"""Causal multi-head self-attention with rotary positions."""

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..linear.configs import LinearConfig
from .configs import CausalAttentionConfig
from .rotary_encoding import RotaryEncoding


class CausalAttention(Module):
    """softmax(q k^T / sqrt(d_head)) v over the past (Vaswani et al. 2017, eq. 1), without biases.

    Torch: `functional.scaled_dot_product_attention(..., is_causal=True)` between two `nn.Linear`.
    """

    def __init__(
        self,
        config: CausalAttentionConfig,
        device: torch.device | str | None = None,
        rotary: RotaryEncoding | None = None,
    ) -> None:
        super().__init__()
        size = config.d_model
        linear = LinearConfig(d_input=size, d_output=size, bias=False, initializer=config.initializer)
        self.query = linear.init(device)
        self.key = linear.init(device)
        self.value = linear.init(device)
        self.output = linear.replace(initializer=config.output_initializer).init(device)
        self.rotary = rotary
        self.n_heads = config.n_heads
        self.dropout = config.dropout

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, sequence, d_model] -> [batch, sequence, d_model]`."""
        query, key, value = (
            projection(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        if self.rotary is not None:
            query, key = self.rotary(query), self.rotary(key)
        dropout = self.dropout if self.training else 0.0
        context = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.output(context.transpose(1, 2).flatten(-2))
