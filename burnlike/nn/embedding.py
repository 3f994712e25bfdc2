"""Embedding layer."""

import torch
from torch import Tensor
from torch.nn import functional

from ..module import Module
from ..tensor.lifting import lift
from .embedding_config import EmbeddingConfig


class Embedding(Module):
    """Rows of a table.

    Attributes:
        weight: `[n_embedding, d_model]`.
    """

    def __init__(self, config: EmbeddingConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.weight = config.initializer.init([config.n_embedding, config.d_model], device=device)

    @lift
    def forward(self, indices: Tensor) -> Tensor:
        """Integers `[...]` in 0..n_embedding-1 `-> [..., d_model]`."""
        return functional.embedding(indices, self.weight)
