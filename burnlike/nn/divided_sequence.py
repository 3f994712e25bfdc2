"""Sequences that several processes share: each has two pieces of every one, and sees the others' where it attends.

Of 2n pieces the process i of n has the pieces i and 2n - 1 - i, so that all have as much to do where a position sees
only what is before it (the order of torch's `context_parallel`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._torch_compat.collectives import gathered
from ..errors import ConfigError
from ..module.torch_objects.wrappers import unwrap

NAME = "_sequence"
"""What a module keeps it as: no field, which records and copies would have."""


class DividedSequence:
    """The division of a batch's sequences, between the beginning of a forward and the end of its backward pass.

    Attributes:
        length: positions of the sequences that are divided now; None where layers get whole ones.
        places: int64 `[own]`, where this process's positions are in the sequence.
        hidden: bool `[batch, all]`, True where a position is padding, or None.
        documents: int64 `[batch, all]`, the document that each position is of, or None.
        is_in_step: whether the sequences of a batch are to be divided.
        is_proven: whether the model was found to compute the same of divided sequences.
    """

    places: Tensor
    hidden: Tensor | None = None
    documents: Tensor | None = None

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        self.length: int | None = None
        self.is_in_step = self.is_proven = False

    @property
    def n_pieces(self) -> int:
        """A whole sequence is filled up to a multiple of this."""
        return 2 * self._size

    @contextmanager
    def step(self) -> Iterator[None]:
        """A forward pass, and its backward pass where there is one, of a batch that is divided within it."""
        self.is_in_step = True
        try:
            yield
            if self.length is None:
                raise ConfigError(
                    "distributed.context: the loss did not divide its sequences, so all processes compute the same;"
                    " take a task that does (LanguageModel, MaskedLanguageModel, TokenClassification), or call"
                    " burnlike.train.own_parts(model, tokens, targets) in the loss"
                )
        finally:
            self.is_in_step = False
            self.end()

    def begin(
        self, length: int, device: torch.device, hidden: Tensor | None = None, documents: Tensor | None = None
    ) -> None:
        """Divide sequences of a length from now on; the tensors, `[batch, length]`, are of whole ones."""
        self.length = length
        whole = length + -length % self.n_pieces
        piece = whole // self.n_pieces
        first, last = self._rank, self.n_pieces - 1 - self._rank
        self.pieces = [(it * piece, (it + 1) * piece) for it in (first, last)]
        self.places = torch.cat([torch.arange(*it, device=device) for it in self.pieces])
        if whole > length and hidden is None:
            hidden = torch.zeros(1, length, dtype=torch.bool, device=device)
        self.hidden = None if hidden is None else self._filled(hidden, 1, True)
        # No document has the number -1: nothing sees what fills up the end.
        self.documents = None if documents is None else self._filled(documents, 1, -1)

    def end(self) -> None:
        """Layers get whole sequences from now on."""
        self.length = self.hidden = self.documents = None

    @property
    def positions(self) -> Tensor:
        """The places, those behind the end of the sequence as its last one."""
        assert self.length is not None
        return self.places.clamp(max=self.length - 1)

    def own(self, whole: Tensor, fill: float = 0) -> Tensor:
        """This process's part of `[batch, length, ...]`, filled up with a value behind the end."""
        filled = self._filled(whole, 1, fill)
        return torch.cat([filled[:, begin:end] for begin, end in self.pieces], 1)

    def whole(self, part: Tensor, dim: int) -> Tensor:
        """Gather a dimension from all processes, in the order of the sequence; the gradient is the sum of theirs."""
        pieces = gathered(part.movedim(dim, 0), self._group)
        first, last = pieces.unflatten(0, (self._size, 2, -1)).unbind(1)
        return torch.cat((first, last.flip(0))).flatten(0, 1).movedim(0, dim)

    def agree(self, problem: bool) -> bool:
        """True if any process of the job has a problem."""
        flag = torch.tensor(float(problem), device=self.places.device)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag)

    def _filled(self, whole: Tensor, dim: int, fill: float) -> Tensor:
        lacking = -whole.shape[dim] % self.n_pieces
        if not lacking:
            return whole
        shape = [*whole.shape[:dim], lacking, *whole.shape[dim + 1 :]]
        return torch.cat((whole, whole.new_full(shape, fill)), dim)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Copies of a model have whole sequences, and so have those that are pickled."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def sequence_of(model: nn.Module) -> DividedSequence | None:
    """The division of the sequences of a model's next batch; None where they stay whole."""
    sequence = unwrap(model).__dict__.get(NAME)
    return sequence if sequence is not None and sequence.is_in_step else None


def divided(module: nn.Module) -> DividedSequence | None:
    """The division of the sequences that a module gets now; None where they are whole."""
    sequence = module.__dict__.get(NAME)
    return None if sequence is None or sequence.length is None else sequence


def positions_in(module: nn.Module, length: int) -> Any:
    """The index, in a table by position, of what a module gets: sequences of a length, or its part of them."""
    sequence = divided(module)
    return slice(length) if sequence is None else sequence.positions
