"""Tokens: what metrics of sequences keep of an epoch. They are compared at its end, on the CPU."""

from collections.abc import Iterator

import torch
from torch import Tensor

from .base import EpochMetric
from .inputs import expect_integers, expect_tensors, shape_error

Sequences = list[list[int]]


class TokenMetric(EpochMetric):
    """A metric of `[n, length]` tokens, integers; predictions and targets may differ in length.

    The list `tokens` has for each batch n, the two lengths, then all predictions and all targets.
    """

    unit = "%"
    tokens: list[Tensor]

    def __init__(self, name: str, pad_token: int | None) -> None:
        super().__init__(name)
        self.pad_token = pad_token
        self.add_list("tokens", torch.int64)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Take a batch.

        Raises:
            ShapeError: they are not both `[n, length]`.
            DTypeError: they are no integers.
        """
        expect_tensors(self, predictions, targets)
        if predictions.dim() != 2 or targets.dim() != 2 or len(predictions) != len(targets):
            raise shape_error(self, "predictions [n, length] and targets [n, length]", predictions, targets)
        expect_integers(self, "predictions", predictions)
        expect_integers(self, "targets", targets)
        self.follow(predictions)
        sizes = (*predictions.shape, targets.shape[1])
        header = [torch.full((1,), size, dtype=torch.int64, device=predictions.device) for size in sizes]
        self.tokens.append(torch.cat([*header, predictions.flatten().long(), targets.flatten().long()]))

    def kept(self, tokens: list[int]) -> list[int]:
        """A sequence without padding: here what is before the first pad token."""
        return tokens[: tokens.index(self.pad_token)] if self.pad_token in tokens else tokens

    def batches(self) -> Iterator[tuple[Sequences, Sequences]]:
        """The predicted and the true sequences of each batch, without padding."""
        tokens, start = self.joined("tokens").tolist(), 0
        while start < len(tokens):
            n, *lengths = tokens[start : start + 3]
            start += 3
            pair: list[Sequences] = []
            for length in lengths:
                rows = [tokens[at : at + length] for at in range(start, start + n * length, length or 1)]
                pair.append([self.kept(row) for row in rows] if length else [[] for _ in range(n)])
                start += n * length
            yield pair[0], pair[1]

    def scalar(self, value: float) -> Tensor:
        """A number as the value of the metric."""
        return torch.tensor(value, dtype=torch.float64, device=self.device)


def as_text(sequences: Sequences) -> list[str]:
    """Sequences as torchmetrics takes them: tokens as words."""
    return [" ".join(map(str, tokens)) for tokens in sequences]
