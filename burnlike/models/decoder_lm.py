"""A decoder-only transformer language model."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import ShapeError
from ..module import Content, Module
from ..nn.activation.configs import SwiGluConfig
from ..nn.attention.configs import CausalAttentionConfig, RotaryEncodingConfig
from ..nn.attention.rotary_encoding import RotaryEncoding
from ..nn.dropout.configs import DropoutConfig
from ..nn.embedding.configs import EmbeddingConfig
from ..nn.initializers.configs import Normal
from ..nn.linear.configs import LinearConfig
from ..nn.norm.configs import RmsNormConfig
from ..tensor.torch_bridge.torch_function import lift
from .decoder_lm_configs import DecoderLmConfig


class DecoderBlock(Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, config: DecoderLmConfig, device: torch.device | str | None, rotary: RotaryEncoding) -> None:
        super().__init__()
        norm = RmsNormConfig(d_model=config.d_model, epsilon=config.norm_epsilon)
        # Parts that add to the residual stream start smaller the deeper the model (Radford et al. 2019, section 2.3).
        residual = Normal(std=0.02 / (2 * config.n_layers) ** 0.5)
        attention = CausalAttentionConfig(
            d_model=config.d_model, n_heads=config.n_heads, dropout=config.dropout, output_initializer=residual
        )
        self.norm_attention = norm.init(device)
        self.attention = attention.init(device, rotary)
        self.norm_feed_forward = norm.init(device)
        self.gate = SwiGluConfig(d_input=config.d_model, d_output=config.d_ff).init(device)
        self.linear = LinearConfig(d_input=config.d_ff, d_output=config.d_model, bias=False, initializer=residual).init(
            device
        )
        self.dropout = DropoutConfig(prob=config.dropout).init()

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, sequence, d_model] -> [batch, sequence, d_model]`."""
        x = x + self.dropout(self.attention(self.norm_attention(x)))
        return x + self.dropout(self.linear(self.gate(self.norm_feed_forward(x))))


class DecoderLm(Module):
    """Token numbers to the logits of the next token; the output head is the transposed embedding.

    Torch: -.
    """

    def __init__(self, config: DecoderLmConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = EmbeddingConfig(
            n_embedding=config.vocab_size, d_model=config.d_model, initializer=Normal(std=0.02)
        ).init(device)
        rotary = RotaryEncodingConfig(
            max_sequence_length=config.max_sequence_length,
            d_model=config.d_model // config.n_heads,
            theta=config.theta,
        ).init(device)
        self.blocks = nn.ModuleList(DecoderBlock(config, device, rotary) for _ in range(config.n_layers))
        self.norm = RmsNormConfig(d_model=config.d_model, epsilon=config.norm_epsilon).init(device)

    @lift
    def forward(self, tokens: Tensor) -> Tensor:
        """Int64 `[batch, sequence]` in 0..vocab_size-1 `-> [batch, sequence, vocab_size]`.

        Raises:
            ShapeError: the sequence is longer than `max_sequence_length`, or tokens is not of rank 2.
        """
        if tokens.ndim != 2 or tokens.shape[1] > self.config.max_sequence_length:
            raise ShapeError(
                f"DecoderLm: expected tokens [batch, sequence <= {self.config.max_sequence_length}], "
                f"got {list(tokens.shape)}"
            )
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.embedding.weight)

    def custom_content(self, content: Content) -> Content:
        """The parts; the sizes are theirs."""
        return content.add("embedding", self.embedding).add("blocks", self.blocks).add("norm", self.norm)
