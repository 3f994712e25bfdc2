"""Items of several lengths: kept one after the other, and padded to batches."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..configs import NO_TARGET
from ..dataset import Fingerprint, Fingerprinted


class Ragged:
    """Lists of whole numbers of different lengths, in one tensor."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.lengths = torch.tensor([len(it) for it in rows], dtype=torch.int64)
        self._ends = self.lengths.cumsum(0).tolist()
        self.values = torch.tensor([it for row in rows for it in row], dtype=torch.int32)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> Tensor:
        return self.values[self._ends[index - 1] if index else 0 : self._ends[index]].long()


class TokenRows(Fingerprinted):
    """Items are mappings of tensors, by the names of the columns, and lists of text.

    Attributes:
        columns: of each item, a list of numbers (`Ragged`), a row of a tensor, or anything else as it is.
        unreadable: rows that could not be read, and why.
        targets: the class of each item; None where they are none.
    """

    draws = False
    unreadable: Sequence[str] = ()

    def __init__(self, columns: Mapping[str, Any], fingerprint: Fingerprint = None) -> None:
        self.columns = dict(columns)
        self.fingerprint = fingerprint

    @property
    def targets(self) -> Tensor | None:
        labels = self.columns.get("labels")
        return labels if isinstance(labels, Tensor) and labels.dim() == 1 and not labels.is_floating_point() else None

    @property
    def lengths(self) -> Tensor:
        """The tokens of each item."""
        return self.columns["input_ids"].lengths

    def __len__(self) -> int:
        return len(self.columns["input_ids"])

    def __getitem__(self, index: int, /) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return {name: column[index] for name, column in self.columns.items()}


class PaddingBatcher:
    """Makes batches of mappings: rows of different lengths are filled up at their ends to the longest of the batch."""

    def __init__(self, pad_token: int) -> None:
        self._padding = {"input_ids": pad_token, "labels": NO_TARGET, "special_tokens_mask": 1, "word_ids": -1}

    def batch(self, items: Sequence[Mapping[str, Any]], device: torch.device) -> dict[str, Any]:
        """`[n, length]` int64 of each column of rows, with an `attention_mask`; other tensors are stacked."""
        batch: dict[str, Any] = {}
        for name, first in items[0].items():
            values = [it[name] for it in items]
            if not isinstance(first, Tensor):
                batch[name] = values
            elif first.dim() == 1 and not first.is_floating_point():
                batch[name] = _padded(values, self._padding.get(name, 0)).to(device)
            else:
                batch[name] = torch.stack(values).to(device)
        mask = _padded([torch.ones_like(it["input_ids"]) for it in items], 0).to(device)
        labels = {name: batch.pop(name) for name in ("labels",) if name in batch}
        return {"input_ids": batch.pop("input_ids"), "attention_mask": mask, **batch, **labels}


def _padded(rows: Sequence[Tensor], value: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([*rows], batch_first=True, padding_value=value)
