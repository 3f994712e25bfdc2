"""Tables of vectors."""

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import TableIndexError
from ..module import Content
from ..ops import linear
from ..tensor.torch_bridge.torch_function import lift
from .call_types import EmbedsIndices
from .configs import EmbeddingConfig
from .layer import Layer, torch_name
from .tensor_source import TensorSource
from .torch_counterpart import Counterpart, expect_only

# Pickles of burnlike 0.1.0 name the module that this file was.
sys.modules[f"{__name__}.embedding"] = sys.modules[__name__]


class Embedding(EmbedsIndices, Layer):
    """Rows of a table, `weight` `[n_embedding, d_model]`.
    Torch: `nn.Embedding`.
    Differs: indices are `[batch, sequence]`; no `padding_idx`, `max_norm`, `sparse`, nor gradients scaled by frequency.
    """

    num_embeddings = torch_name("weight", 0)
    embedding_dim = torch_name("weight", 1)

    def __init__(self, config: EmbeddingConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.weight = config.initializer.init([config.n_embedding, config.d_model], device=device)

    @lift
    def forward(self, indices: Tensor) -> Tensor:
        """Integers `[...] -> [..., d_model]`. Raises TableIndexError for one not in 0..n_embedding-1, on the CPU."""
        try:
            return functional.embedding(indices, self.weight)
        except IndexError as error:
            raise TableIndexError(
                f"Embedding: expected indices in 0..{self.weight.shape[0] - 1}, got others"
            ) from error

    def project(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x @ weight.T + bias: the logits of a head that is tied to the table, `[..., d_model] -> [..., n_embedding]`.

        A model whose head is tied calls this, so that it goes on where several processes share the table.
        """
        head = self.__dict__.get("_divided_head")
        return linear(x, self.weight, bias) if head is None else head(self, x, bias)

    def custom_content(self, content: Content) -> Content:
        n_embedding, d_model = content.shape("weight")
        return content.add("n_embedding", n_embedding).add("d_model", d_model)


def _from_torch(layer: nn.Embedding) -> EmbeddingConfig:
    expect_only(layer, padding_idx=None, max_norm=None, scale_grad_by_freq=False, sparse=False)
    return EmbeddingConfig(n_embedding=layer.num_embeddings, d_model=layer.embedding_dim)


COUNTERPARTS = [
    Counterpart(
        "Embedding",
        nn.Embedding,
        _from_torch,
        lambda it, device: nn.Embedding(*it.weight.shape, device=device),
        {"weight": TensorSource("weight")},
    )
]
