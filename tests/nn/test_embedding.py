"""Indices that have no row in an embedding's table."""

import pytest
import torch

from burnlike import models, nn
from burnlike.errors import TableIndexError


@pytest.mark.parametrize("index", [5, -1])
def test_an_index_without_a_row_is_told_the_range(index: int) -> None:
    layer, indices = nn.EmbeddingConfig(n_embedding=5, d_model=2).init(), torch.tensor([[0, index]])
    with pytest.raises(TableIndexError, match=r"Embedding: expected indices in 0\.\.4, got others"):
        layer(indices)
    with pytest.raises(TableIndexError, match=r"expected indices in 0\.\.4"):
        torch.vmap(layer)(indices)
    with pytest.raises(IndexError, match=r"expected indices in 0\.\.4"):  # as torch's own layer raises
        models.LstmLmConfig(vocab_size=5, d_model=2, d_hidden=2).init().generate(indices, 1)
