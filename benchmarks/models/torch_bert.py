"""BERT with its head for masked tokens (Devlin et al. 2019) by torch's encoder."""

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional

from burnlike.models import BertMaskedLmConfig

NAMES: Mapping[str, str] = {
    r"^norm\.": "head_norm.",
    r"^encoder\.embeddings\.": "",
    r"^encoder\.layers\.(\d+)\.attention": r"encoder.layers.\1.self_attn",
    r"^encoder\.layers\.(\d+)\.norm_attention": r"encoder.layers.\1.norm1",
    r"^encoder\.layers\.(\d+)\.norm_feed_forward": r"encoder.layers.\1.norm2",
    r"^encoder\.layers\.(\d+)\.linear_inner": r"encoder.layers.\1.linear1",
    r"^encoder\.layers\.(\d+)\.linear_outer": r"encoder.layers.\1.linear2",
}
"""Patterns in the paths of ours, and what is here in place of it."""


class Bert(nn.Module):
    def __init__(self, config: BertMaskedLmConfig) -> None:
        super().__init__()
        encoder = config.encoder
        size, epsilon = encoder.d_model, encoder.norm_epsilon
        self.token = nn.Embedding(encoder.vocab_size, size)
        self.position = nn.Embedding(encoder.max_sequence_length, size)
        self.token_type = nn.Embedding(encoder.n_token_types, size)
        self.norm = nn.LayerNorm(size, epsilon)
        layer = nn.TransformerEncoderLayer(
            size,
            encoder.n_heads,
            encoder.d_ff,
            encoder.dropout,
            activation="gelu",
            layer_norm_eps=epsilon,
            batch_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, encoder.n_layers, enable_nested_tensor=False)
        self.linear = nn.Linear(size, size)
        self.head_norm = nn.LayerNorm(size, epsilon)
        self.bias = nn.Parameter(self.token.weight.new_zeros(encoder.vocab_size))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]] + self.token_type.weight[0]
        x = self.encoder(self.norm(x))
        x = self.head_norm(functional.gelu(self.linear(x)))
        return functional.linear(x, self.token.weight, self.bias)
