"""What encoders in the layout of BERT are trained for: naming masked tokens, and classes of sequences."""

import torch
from torch import Tensor

from ..module import Content, Module
from ..nn.dropout.configs import DropoutConfig
from ..nn.initializers.configs import Zeros
from ..nn.linear.configs import LinearConfig
from ..nn.norm.configs import LayerNormConfig
from ..ops import linear
from ..tensor.torch_bridge.torch_function import lift
from .bert import INITIALIZER
from .bert_configs import BertClassifierConfig, BertMaskedLmConfig


class BertMaskedLm(Module):
    """The logits of each position's token: norm(activation(linear(hidden))) @ embedding^T + bias.

    Attributes:
        encoder: the encoder.
        linear: Linear `d_model -> d_model`.
        norm: of the activation's values.
        bias: `[vocab_size]`.
    """

    def __init__(self, config: BertMaskedLmConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        encoder = config.encoder
        self.encoder = encoder.init(device)
        size = encoder.d_model
        self.linear = LinearConfig(d_input=size, d_output=size, initializer=INITIALIZER).init(device)
        self.activation = encoder.activation.init(device)
        self.norm = LayerNormConfig(d_model=size, epsilon=encoder.norm_epsilon).init(device)
        self.bias = Zeros().init([encoder.vocab_size], device=device)

    @lift
    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """The arguments of `BertEncoder` `-> [batch, sequence, vocab_size]` logits.

        Raises:
            ShapeError: the sequence is longer than `max_sequence_length`, or an input has another shape.
        """
        hidden = self.encoder(tokens, attention_mask, token_types).hidden
        hidden = self.norm(self.activation(self.linear(hidden)))
        return linear(hidden, self.encoder.embeddings.token.weight, self.bias)

    def custom_content(self, content: Content) -> Content:
        return content.add("encoder", self.encoder).add("linear", self.linear).add("norm", self.norm)


class BertClassifier(Module):
    """The logits of a sequence's classes, by a linear map of the pooled vector.

    Attributes:
        encoder: the encoder.
        head: Linear `d_model -> n_classes`.
    """

    def __init__(self, config: BertClassifierConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.encoder = config.encoder.init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        head = LinearConfig(d_input=config.encoder.d_model, d_output=config.n_classes, initializer=INITIALIZER)
        self.head = head.init(device)

    @lift
    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """The arguments of `BertEncoder` `-> [batch, n_classes]` logits.

        Raises:
            ShapeError: the sequence is longer than `max_sequence_length`, or an input has another shape.
        """
        return self.head(self.dropout(self.encoder(tokens, attention_mask, token_types).pooled))

    def custom_content(self, content: Content) -> Content:
        return content.add("encoder", self.encoder).add("dropout", self.dropout).add("head", self.head)
