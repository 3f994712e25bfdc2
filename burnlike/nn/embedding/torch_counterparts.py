"""torch's counterpart of the embedding layer."""

import torch
from torch import nn

from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, refuse
from .configs import EmbeddingConfig
from .embedding import Embedding


def _config(layer: nn.Embedding) -> EmbeddingConfig:
    for name in ("padding_idx", "max_norm"):
        if getattr(layer, name) is not None:
            raise refuse(layer, f"{name}={getattr(layer, name)} has no counterpart")
    if layer.scale_grad_by_freq or layer.sparse:
        raise refuse(layer, "scale_grad_by_freq and sparse have no counterpart")
    return EmbeddingConfig(n_embedding=layer.num_embeddings, d_model=layer.embedding_dim)


def _build(layer: Embedding, device: torch.device) -> nn.Embedding:
    n_embedding, d_model = layer.weight.shape
    return nn.Embedding(n_embedding, d_model, device=device)


COUNTERPARTS = [Counterpart("Embedding", nn.Embedding, _config, _build, {"weight": TensorSource("weight")})]
