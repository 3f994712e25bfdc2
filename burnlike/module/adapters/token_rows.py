"""Rows of a table of tokens that are trained, while the rest of the table is frozen."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .layers import adapter_of, frozen_linear, kind_of
from .reparameterization import Reparameterization


class TokenRows(Reparameterization):
    """A table `[n_tokens, d]`, or with `dim` 1 `[d, n_tokens]`, in which some rows are `values`.

    Attributes:
        tokens: the numbers of these rows.
        values: `[len(tokens), d]`; they begin as the rows of the table.
        dim: the dimension that counts tokens.
        first: the number of the table's first row, where it is a process's part.
    """

    reparameterization_name = "token_rows"

    def __init__(self, tokens: Sequence[int], weight: Tensor, dtype: torch.dtype, dim: int = 0) -> None:
        super().__init__()
        self.tokens, self.dim, self.first = tuple(tokens), dim, 0
        self.values = nn.Parameter(weight.detach().movedim(dim, 0)[list(tokens)].to(dtype, copy=True))

    def _rows(self, base: Tensor) -> tuple[Tensor, Tensor]:
        """The places of the rows that a table, or a process's part of it, has; and which of `values` these are."""
        places = [(token - self.first, number) for number, token in enumerate(self.tokens)]
        there = [place for place in places if 0 <= place[0] < base.shape[self.dim]]
        both = torch.tensor(there, dtype=torch.int64, device=base.device).view(-1, 2)
        return both[:, 0], both[:, 1]

    def forward(self, base: Tensor) -> Tensor:
        places, numbers = self._rows(base)
        return base.index_copy(self.dim, places, self.values[numbers].movedim(0, self.dim).to(base.dtype))

    def layer_forward(self, layer: nn.Module, layer_class: type, *arguments: Any, **keywords: Any) -> Tensor | None:
        """The layer's result without a copy of its table; None for a layer of another kind, or watched by hooks."""
        kind, inputs = kind_of(layer_class), (*arguments, *keywords.values())
        if len(inputs) != 1 or (adapted := adapter_of(layer, TokenRows)) is None:
            return None
        if kind == "embedding" and not layer.scale_grad_by_freq:
            padding: Any = layer.padding_idx
            # torch gives the row of padding no gradient, which the rows here would get.
            has_padding = padding is not None and padding + self.first in self.tokens
            return None if has_padding else self._of_tokens(inputs[0], adapted[1])
        if kind == "linear":
            return self._logits(inputs[0], adapted[1], cast("Tensor | None", layer.bias))
        return None

    def _of_tokens(self, indices: Tensor, base: Tensor) -> Tensor:
        places, numbers = self._rows(base)
        row = torch.full((len(base),), -1, device=base.device).index_copy_(0, places, numbers)[indices]
        values = functional.embedding(row.clamp(min=0), self.values).to(base.dtype)
        return torch.where((row >= 0)[..., None], values, functional.embedding(indices, base))

    def _logits(self, x: Tensor, base: Tensor, bias: Tensor | None) -> Tensor:
        places, numbers = self._rows(base)
        values, bias_of_values = self.values[numbers], None if bias is None else bias[places]
        logits = frozen_linear(x, values, bias_of_values, outputs_first=True)
        return frozen_linear(x, base, bias, outputs_first=True).index_copy_(-1, places, logits)
