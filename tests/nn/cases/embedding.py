"""Cases of embeddings."""

import torch

from burnlike import nn

from . import Case

CASES = [
    Case("Embedding", nn.EmbeddingConfig(n_embedding=7, d_model=4), lambda: (torch.randint(7, (2, 5)),)),
    Case("Embedding/any_rank", nn.EmbeddingConfig(n_embedding=7, d_model=4), lambda: (torch.randint(7, (2, 3, 5)),)),
]
