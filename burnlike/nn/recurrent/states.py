"""The states of recurrent layers, which they take and return."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from ...backend import Backend
from ...errors import ShapeError
from ...tensor import Tensor as Typed


class RnnState(NamedTuple):
    """The state of `Rnn`, `[batch, d_hidden]`, and with a first dimension of 2 that of `BiRnn`."""

    hidden: Tensor


class LstmState(NamedTuple):
    """The state of `Lstm`, `[batch, d_hidden]` each, or `[2, batch, d_hidden]` of `BiLstm`; torch has hidden first."""

    cell: Tensor
    hidden: Tensor

    @classmethod
    def new(cls, cell: Tensor, hidden: Tensor) -> Self:
        """The state of these tensors. Raises ShapeError if their shapes differ."""
        if cell.shape != hidden.shape:
            raise ShapeError(
                f"LstmState: expected cell and hidden of one shape, got {list(cell.shape)} and {list(hidden.shape)}"
            )
        return cls(cell, hidden)

    @classmethod
    def initial(cls, shape: Sequence[int], device: Backend | torch.device | str | None = None) -> Self:
        """Zeros of a shape: torch tensors on a device, or typed ones of a backend."""
        if isinstance(device, Backend):
            zeros: Any = Typed.zeros(list(shape), device)
            return cls(zeros, zeros)
        return cls(torch.zeros(*shape, device=device), torch.zeros(*shape, device=device))

    @classmethod
    def unwrap_or_initial(
        cls, state: Self | None, shape: Sequence[int], device: Backend | torch.device | str | None = None
    ) -> Self:
        """`state`, or zeros if it is None."""
        return cls.initial(shape, device) if state is None else state

    @property
    def shape(self) -> torch.Size:
        """The shape of the cell, and so of the hidden state."""
        return self.cell.shape

    @property
    def device(self) -> torch.device:
        return self.cell.device

    def unpack(self) -> tuple[Tensor, Tensor]:
        return self.cell, self.hidden

    def map_state(self, function: Callable[[Tensor], Tensor]) -> "LstmState":
        """The state of what `function` makes of both tensors."""
        return LstmState(function(self.cell), function(self.hidden))

    def squeeze_dim(self, dim: int) -> "LstmState":
        """Without the dimension `dim`. Raises ShapeError if it has another size than 1."""
        if self.shape[dim] != 1:
            raise ShapeError(f"LstmState: expected size 1 in dimension {dim}, got {list(self.shape)}")
        return self.map_state(lambda tensor: torch.squeeze(tensor, dim))

    def unsqueeze_dim(self, dim: int) -> "LstmState":
        """With a dimension of size 1 at `dim` of the result."""
        return self.map_state(lambda tensor: torch.unsqueeze(tensor, dim))

    @staticmethod
    def stack(states: Sequence["LstmState"], dim: int) -> "LstmState":
        """The states along a new dimension."""
        return LstmState(
            torch.stack([state.cell for state in states], dim), torch.stack([state.hidden for state in states], dim)
        )

    def chunk(self, chunks: int, dim: int) -> "list[LstmState]":
        """The state in `chunks` parts along a dimension, which stays."""
        cells, hiddens = torch.chunk(self.cell, chunks, dim), torch.chunk(self.hidden, chunks, dim)
        return [LstmState(*pair) for pair in zip(cells, hiddens, strict=True)]
