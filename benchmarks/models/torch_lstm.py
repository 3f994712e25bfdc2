"""A language model of `nn.LSTM` (Zaremba et al. 2014)."""

from collections.abc import Mapping

from torch import Tensor, nn

from burnlike.models import LstmLmConfig

NAMES: Mapping[str, str] = {r"^layers\.(\d+)\.(\w+)_l0": r"lstm.\2_l\1"}
"""Patterns in the paths of ours, and what is here in place of it."""


class LstmLm(nn.Module):
    def __init__(self, config: LstmLmConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.lstm = nn.LSTM(config.d_model, config.d_hidden, config.n_layers, batch_first=True)
        self.head = nn.Linear(config.d_hidden, config.vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])
