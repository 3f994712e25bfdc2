"""Rows of a table of tokens that are trained, while the rest of the table is frozen."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .layers import adapter_of, frozen_linear, kind_of
from .reparameterization import Reparameterization


class TokenRows(Reparameterization):
    """A table `[n_tokens, d]` in which some rows are `values`.

    Attributes:
        tokens: the numbers of these rows.
        values: `[len(tokens), d]`; they begin as the rows of the table.
    """

    reparameterization_name = "token_rows"

    def __init__(self, tokens: Sequence[int], weight: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.tokens = tuple(tokens)
        self.values = nn.Parameter(weight.detach()[self._places(weight)].to(dtype, copy=True))

    def _places(self, weight: Tensor) -> Tensor:
        return torch.tensor(self.tokens, device=weight.device)

    def forward(self, base: Tensor) -> Tensor:
        return base.index_copy(0, self._places(base), self.values.to(base.dtype))

    def layer_forward(self, layer: nn.Module, layer_class: type, *arguments: Any, **keywords: Any) -> Tensor | None:
        """The layer's result without a copy of its table; None for a layer of another kind, or watched by hooks."""
        kind, inputs = kind_of(layer_class), (*arguments, *keywords.values())
        if len(inputs) != 1 or (adapted := adapter_of(layer, "weight", TokenRows)) is None:
            return None
        if kind == "embedding" and layer.padding_idx not in self.tokens and not layer.scale_grad_by_freq:
            return self._of_tokens(inputs[0], adapted[1])
        if kind == "linear":
            return self._logits(inputs[0], adapted[1], cast("Tensor | None", layer.bias))
        return None

    def _of_tokens(self, indices: Tensor, base: Tensor) -> Tensor:
        number = torch.full((len(base),), -1, device=base.device)
        number[self._places(base)] = torch.arange(len(self.tokens), device=base.device)
        row = number[indices]
        values = functional.embedding(row.clamp(min=0), self.values).to(base.dtype)
        return torch.where((row >= 0)[..., None], values, functional.embedding(indices, base))

    def _logits(self, x: Tensor, base: Tensor, bias: Tensor | None) -> Tensor:
        places = self._places(base)
        logits = frozen_linear(x, self.values, None if bias is None else bias[places], outputs_first=True)
        return frozen_linear(x, base, bias, outputs_first=True).index_copy_(-1, places, logits)
