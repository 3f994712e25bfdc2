"""Rows shared by conversations: best-fit decreasing (Johnson 1973), which leaves little of a row empty."""

from bisect import bisect_left, insort
from collections.abc import Sequence

import torch


def packed(lengths: Sequence[int], capacity: int, seed: int) -> list[list[int]]:
    """Rows of at most `capacity` tokens, each a list of indices.

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
