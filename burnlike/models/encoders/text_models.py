"""Models over an encoder of texts: a class of each text, of each token, and of a pair of texts."""

import torch
from torch import Tensor
from torch.nn import functional

from ...errors import ArgumentError
from ...module import Content, Module
from ...nn.configs import DropoutConfig, LinearConfig
from ...nn.linear import Linear
from ...tensor.torch_bridge.torch_function import lift
from .configs import SiameseConfig, TextClassifierConfig, TokenTaggerConfig
from .model import INITIALIZER


def _head(d_input: int, d_output: int, device: torch.device | str | None) -> Linear:
    return LinearConfig(d_input=d_input, d_output=d_output, initializer=INITIALIZER).init(device)


def mean_of_tokens(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """`[batch, sequence, d_model] -> [batch, d_model]`: the mean over the positions where the mask is not 0."""
    if attention_mask is None:
        return hidden.mean(1)
    weights = (attention_mask != 0).to(hidden.dtype).unsqueeze(-1)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


class TextClassifier(Module):
    """The logits of a text's classes, by a linear map of the mean over its tokens, or of its first one."""

    def __init__(self, config: TextClassifierConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.encoder = config.encoder.replace(pooler=False).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.head = _head(config.encoder.d_model, config.n_classes, device)
        self.pooling = config.pooling

    @lift
    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """The arguments of `BertEncoder` `-> [batch, n_classes]` logits; the same errors."""
        hidden = self.encoder(tokens, attention_mask, token_types).hidden
        vector = mean_of_tokens(hidden, attention_mask) if self.pooling == "mean" else hidden[:, 0]
        return self.head(self.dropout(vector))

    def custom_content(self, content: Content) -> Content:
        content = content.add("encoder", self.encoder).add("dropout", self.dropout)
        return content.add("head", self.head).add("pooling", self.pooling)


class TokenTagger(Module):
    """The logits of the class of each token."""

    def __init__(self, config: TokenTaggerConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.encoder = config.encoder.replace(pooler=False).init(device)
        self.dropout = DropoutConfig(prob=config.dropout).init()
        self.head = _head(config.encoder.d_model, config.n_classes, device)

    @lift
    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """The arguments of `BertEncoder` `-> [batch, sequence, n_classes]` logits; the same errors."""
        return self.head(self.dropout(self.encoder(tokens, attention_mask, token_types).hidden))

    def custom_content(self, content: Content) -> Content:
        return content.add("encoder", self.encoder).add("dropout", self.dropout).add("head", self.head)


class Siamese(Module):
    """One encoder for both texts of a pair, and what it says of them together (Reimers & Gurevych 2019, section 3).

    Attributes:
        head: Linear of (u, v, |u - v|), or None for the cosine of u and v.
    """

    def __init__(self, config: SiameseConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.encoder = config.encoder.replace(pooler=False).init(device)
        d_pair = 3 * config.encoder.d_model
        self.head = None if config.n_classes is None else _head(d_pair, config.n_classes, device)

    @lift
    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """Pairs as one sequence each `-> [batch, n_classes]` logits, or `[batch, 1]` cosines.

        Args:
            tokens: int64 `[batch, sequence]`, the tokens of both texts, one after the other.
            attention_mask: as of `BertEncoder`.
            token_types: int64 `[batch, sequence]`, 1 for the tokens of the second text.

        Raises:
            ArgumentError: nothing says which tokens are those of the second text.
        """
        if token_types is None:
            raise ArgumentError(
                "Siamese: expected token_types, which are 1 in the second text of a pair: set `data.text` to two"
                " columns, and take a tokenizer that marks pairs, such as one of `burnlike tokenizer`"
            )
        is_token = torch.ones_like(tokens, dtype=torch.bool) if attention_mask is None else attention_mask != 0
        is_second = (token_types == 1) & is_token
        # The second text is moved to the begin, so that a text has the same positions on both sides.
        begins, numbers = is_second.long().argmax(1, keepdim=True), torch.ones_like(tokens).cumsum(1)
        places = (numbers - 1 + begins) % numbers[:, -1:]  # by a tensor: ONNX has no remainder by a size that varies
        one = self._vector(tokens, is_token & ~is_second)
        other = self._vector(tokens.gather(1, places), is_second.gather(1, places))
        if self.head is None:
            return functional.cosine_similarity(one, other).unsqueeze(1)
        return self.head(torch.cat([one, other, (one - other).abs()], 1))

    def _vector(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return mean_of_tokens(self.encoder(tokens, mask).hidden, mask)

    def custom_content(self, content: Content) -> Content:
        content = content.add("encoder", self.encoder)
        return content if self.head is None else content.add("head", self.head)
