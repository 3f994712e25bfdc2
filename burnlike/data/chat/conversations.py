"""Data sets of conversations as tokens: one in a row, or several, packed; and batches of rows."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from ..configs import NO_TARGET
from ..dataset import Fingerprint, Fingerprinted
from ..sources.splits import drawn
from .templates import Encoded


def packed(lengths: Sequence[int], capacity: int, seed: int) -> list[list[int]]:
    """Rows of at most `capacity` tokens, each a list of indices: best-fit decreasing (Johnson 1973).

    It leaves little of a row empty.

    The longest item comes first, each into the fullest row that has room for it; those of one length come in an order
    of the seed.

    Args:
        lengths: of the items, each at most `capacity`.
    """
    shuffled = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed))
    sizes = torch.as_tensor(lengths)[shuffled]
    rows: list[list[int]] = []
    with_room: dict[int, list[int]] = {}
    rooms: list[int] = []  # sorted, those that `with_room` has rows for
    for place in sizes.argsort(descending=True, stable=True).tolist():
        size, index = int(sizes[place]), int(shuffled[place])
        fitting = bisect_left(rooms, size)
        if fitting < len(rooms):
            room = rooms[fitting]
            row = with_room[room].pop()
            if not with_room[room]:
                del with_room[room], rooms[fitting]
        else:
            room, row = capacity, len(rows)
            rows.append([])
        rows[row].append(index)
        left = room - size
        if left:
            if left not in with_room:
                insort(rooms, left)
            with_room.setdefault(left, []).append(row)
    return rows


class ConversationTokens:
    """Conversations one after the other in memory, 5 bytes a token, each in one row or in several."""

    def __init__(self) -> None:
        self._tokens, self._counts, self._ends = array("i"), bytearray(), array("q", [0])
        self._conversation_ends = array("q", [0])  # in rows

    def append_all(self, rows: Iterable[Encoded]) -> None:
        """Add the rows of one conversation."""
        for row in rows:
            self.append(row)
        if len(self) > self._conversation_ends[-1]:
            self._conversation_ends.append(len(self))

    def drawn(self, fraction: float, seed: int) -> tuple[list[int], list[int]]:
        """The rows to train on, and to validate on: all rows of a conversation are in one part."""
        ends = self._conversation_ends
        train, valid = (
            [row for it in part for row in range(ends[it], ends[it + 1])]
            for part in drawn(len(ends) - 1, fraction, seed)
        )
        return train, valid

    def append(self, row: Encoded) -> None:
        self._tokens.extend(row.tokens)
        self._counts.extend(row.counts)
        self._ends.append(len(self._tokens))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Tokens `[n]` int64, and bool `[n]`, whether there is a loss on each."""
        begin, end = self._ends[index], self._ends[index + 1]
        return torch.tensor(self._tokens[begin:end]).long(), torch.tensor(list(self._counts[begin:end])).bool()

    def lengths(self) -> Tensor:
        return torch.tensor(self._ends).diff()

    def n_tokens(self) -> tuple[int, int]:
        """The number of tokens, and of those with a loss."""
        return len(self._tokens), sum(self._counts)


class Conversations(Fingerprinted):
    """Items are mappings of `input_ids` and `labels`, int64 `[n]` each.

    Attributes:
        lengths: of the items, by which the loader makes batches of like ones.
        unreadable: rows that could not be read, and why.
    """

    draws = False

    unreadable: Sequence[str] = ()

    def __init__(self, rows: ConversationTokens, indices: Sequence[int], fingerprint: Fingerprint = None) -> None:
        self.rows, self.indices = rows, indices
        self.fingerprint = fingerprint
        self.lengths = rows.lengths()[torch.as_tensor(indices, dtype=torch.int64)]

    @property
    def sizes(self) -> Tensor:
        """Tokens that an item takes in a row of several."""
        return self.lengths

    def __len__(self) -> int:
        return len(self.indices)

    def row_of(self, index: int) -> int:
        """The row that an item is."""
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return self.indices[index]

    def __getitem__(self, index: int, /) -> dict[str, Any]:
        return self.tokens_of(self.row_of(index))

    def tokens_of(self, row: int) -> dict[str, Tensor]:
        tokens, counts = self.rows[row]
        labels = tokens.where(counts, NO_TARGET)
        labels[0] = NO_TARGET  # nothing is before it
        return {"input_ids": tokens, "labels": labels}


class PackedConversations(Fingerprinted):
    """Items are mappings of `input_ids`, `labels` and `position_ids`, int64 `[n]` each, of several conversations.

    Attributes:
        length: of the longest item.
        fill: which share of rows of this length is not padding.
        unreadable: rows that could not be read, and why.
    """

    draws = False

    def __init__(self, conversations: Conversations, capacity: int, seed: int) -> None:
        self.conversations = conversations
        self.fingerprint = conversations._fingerprint
        self.unreadable = conversations.unreadable
        lengths = conversations.sizes.tolist()
        self.packs = packed(lengths, capacity, seed)
        sizes = [sum(lengths[it] for it in pack) for pack in self.packs]
        self.length = max(sizes, default=0)
        self.fill = sum(sizes) / max(self.length * len(sizes), 1)

    def __len__(self) -> int:
        return len(self.packs)

    def __getitem__(self, index: int, /) -> dict[str, Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return self._joined([self.conversations[it] for it in self.packs[index]])

    @staticmethod
    def _joined(items: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        positions = [torch.arange(len(item["input_ids"])) for item in items]
        return {
            "input_ids": torch.cat([item["input_ids"] for item in items]),
            "labels": torch.cat([item["labels"] for item in items]),
            "position_ids": torch.cat(positions),
        }


class ConversationBatcher:
    """Makes mappings `[n, length]` int64 of items, padded on the right.

    Packed items keep their `position_ids`, in which padding is a document of its own; others get an `attention_mask`.
    """

    makes = "padded conversations"

    def __init__(self, pad_token: int, length: int = 0) -> None:
        """Take the token of the padding, and the least length of a batch."""
        self.pad_token, self.length = pad_token, length

    def batch(self, items: Sequence[Mapping[str, Tensor]], device: torch.device) -> dict[str, Any]:
        sizes = [len(it["input_ids"]) for it in items]
        shape = (len(items), max(self.length, *sizes))
        batch = {
            "input_ids": torch.full(shape, self.pad_token),
            "labels": torch.full(shape, NO_TARGET),
        }
        if "position_ids" in items[0]:
            batch["position_ids"] = torch.zeros(shape, dtype=torch.int64)
        for row, (item, size) in enumerate(zip(items, sizes, strict=True)):
            for name, tensor in batch.items():
                if name not in item:
                    raise DataError(f"expected all items of a batch to have {', '.join(batch)}, got {', '.join(item)}")
                tensor[row, :size] = item[name]
            if "position_ids" in batch:
                batch["position_ids"][row, size:] = torch.arange(shape[1] - size)
        if "position_ids" not in batch:
            batch["attention_mask"] = (torch.arange(shape[1]) < torch.tensor(sizes)[:, None]).long()
        return {name: value.to(device, non_blocking=True) for name, value in batch.items()}
