"""Recurrent layers of torch that are several: a module of one layer each, as Burn has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Stacked(nn.Module):
    """Computes what an `nn.LSTM`, `nn.GRU` or `nn.RNN` of several layers does, with the same parameters."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_one(layer, number) for number in range(layer.num_layers))
        self.dropout = nn.Dropout(layer.dropout)
        self.directions = 2 if layer.bidirectional else 1

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        states: list[Any] = []
        for number, layer in enumerate(self.layers):
            rows = slice(number * self.directions, (number + 1) * self.directions)
            rows_of_state = None if hx is None else hx[rows] if isinstance(hx, Tensor) else tuple(it[rows] for it in hx)
            input, state = layer(input if not number else self.dropout(input), rows_of_state)
            states.append(state)
        if isinstance(states[0], Tensor):
            return input, torch.cat(states)
        return input, tuple(torch.cat([*parts]) for parts in zip(*states, strict=True))


def _one(layer: nn.RNNBase, number: int) -> nn.RNNBase:
    """The layer with this number, whose parameters are those of the stack."""
    width = layer.hidden_size * (2 if layer.bidirectional else 1)
    options: dict[str, Any] = {"nonlinearity": layer.nonlinearity} if isinstance(layer, nn.RNN) else {}
    kind: Any = type(layer)
    stack = kind(
        layer.input_size if number == 0 else width,
        layer.hidden_size,
        bias=layer.bias,
        batch_first=layer.batch_first,
        bidirectional=layer.bidirectional,
        device="meta",
        **options,
    )
    for name in [*stack._parameters]:
        setattr(stack, name, getattr(layer, name.replace("_l0", f"_l{number}")))
    return stack.train(layer.training)


@contextmanager
def stacks_apart(model: nn.Module) -> Iterator[None]:
    """A `with` block in which the model has a `Stacked` in place of each recurrent layer that is several."""
    homes: list[tuple[nn.Module, str, Any]] = [
        (it, name, child) for it in model.modules() for name, child in it._modules.items() if _is_stack(child)
    ]
    try:
        for home, name, child in homes:
            setattr(home, name, Stacked(child).train(child.training))
        yield
    finally:
        for home, name, child in homes:
            setattr(home, name, child)


def _is_stack(module: Any) -> bool:
    return type(module) in (nn.LSTM, nn.GRU, nn.RNN) and module.num_layers > 1 and not getattr(module, "proj_size", 0)
