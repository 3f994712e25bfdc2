"""torch's counterpart of the embedding layer."""

from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, expect_only
from .configs import EmbeddingConfig


def _config(layer: nn.Embedding) -> EmbeddingConfig:
    expect_only(layer, padding_idx=None, max_norm=None, scale_grad_by_freq=False, sparse=False)
    return EmbeddingConfig(n_embedding=layer.num_embeddings, d_model=layer.embedding_dim)


COUNTERPARTS = [
    Counterpart(
        "Embedding",
        nn.Embedding,
        _config,
        lambda it, device: nn.Embedding(*it.weight.shape, device=device),
        {"weight": TensorSource("weight")},
    )
]
