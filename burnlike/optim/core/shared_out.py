"""Work on whole matrices that are divided among ranks: one of them puts a matrix together, computes, and sends parts of
the result back.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Size, Tensor

from .sharded import divided_dim

Compute = Callable[[list[Tensor]], list[Tensor]]


def shared_out(parts: Sequence[Tensor], wholes: Sequence[Any], compute: Compute, most: int) -> list[Tensor]:
    """This rank's parts of what `compute` makes of whole matrices; all ranks that divide them call it.

    Each matrix is computed by one of the ranks that divide it, so that all have about as much to do. A rank has at most
    `most` values of whole matrices at a time, or one matrix.

    Args:
        parts: of the DTensors `wholes`, or of others that are divided as these; of one dtype on one device.
        wholes: their shapes and divisions.
        compute: gives matrices of the same shapes; may get an empty list.
        most: values.
    """
    computed = list(parts)
    by_division: dict[Any, list[int]] = {}
    for place, whole in enumerate(wholes):
        by_division.setdefault((whole.device_mesh, _cut_last_first(whole.placements)), []).append(place)
    for (mesh, dims), places in by_division.items():
        groups = [_Group(mesh.get_group(dim), mesh.size(dim), mesh.get_local_rank(dim)) for dim in dims]
        counts = [group.size for group in groups]
        for owners in _rounds([wholes[place].shape for place in places], counts, most):
            some = [places[place] for place in owners]
            pieces = [
                _Piece(computed[place], owner, _cuts(wholes[place], dims))
                for place, owner in zip(some, owners.values(), strict=True)
            ]
            for place, values in zip(some, _computed(pieces, groups, compute), strict=True):
                computed[place] = values
    return computed


@dataclass(frozen=True, slots=True)
class _Group:
    """The ranks along one dimension of a mesh."""

    group: Any
    size: int
    rank: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """The piece of a matrix that this rank has.

    Attributes:
        owner: who computes it: the place in each group that divides it, the one that cut it last first.
        cuts: for each of these groups the dimension of the matrix and the lengths of the pieces.
    """

    values: Tensor
    owner: tuple[int, ...]
    cuts: tuple[tuple[int, list[int]], ...]

    def shape_at(self, place: int) -> Size:
        """The shape of another rank's piece."""
        dim, lengths = self.cuts[0]
        shape = self.values.shape
        return Size((*shape[:dim], lengths[place], *shape[dim + 1 :]))


def _cut_last_first(placements: Sequence[Any]) -> tuple[int, ...]:
    """Dimensions of the mesh that divide a matrix: the one that cut it last first, strided ones, which cut after all
    others.
    """
    dims = [dim for dim, it in enumerate(placements) if divided_dim(it) is not None]
    return tuple(sorted(dims, key=lambda dim: (placements[dim].is_shard(), -dim)))


def _cuts(whole: Any, dims: Sequence[int]) -> tuple[tuple[int, list[int]], ...]:
    lengths, cuts = list(whole.shape), []
    for mesh_dim in reversed(dims):
        dim, size = whole.placements[mesh_dim].dim, whole.device_mesh.size(mesh_dim)
        each = -(-lengths[dim] // size)
        pieces = [min(each, max(0, lengths[dim] - place * each)) for place in range(size)]
        cuts.append((dim, pieces))
        lengths[dim] = pieces[whole.device_mesh.get_local_rank(mesh_dim)]
    return tuple(reversed(cuts))


def _rounds(shapes: Sequence[Size], counts: Sequence[int], most: int) -> Iterator[dict[int, tuple[int, ...]]]:
    """Places of matrices and their owners, in rounds in which each rank has few matrices; the same on each rank."""
    ranks = list(itertools.product(*map(range, counts)))
    loads = [0] * len(ranks)
    lots: list[list[list[int]]] = [[[]] for _ in ranks]
    # The longest work first, to the rank with the least: within 4/3 of the best division (Graham 1969).
    for place in sorted(range(len(shapes)), key=lambda place: -_work(shapes[place])):
        rank = loads.index(min(loads))
        loads[rank] += _work(shapes[place])
        if lots[rank][-1] and sum(shapes[it].numel() for it in (*lots[rank][-1], place)) > most:
            lots[rank].append([])
        lots[rank][-1].append(place)
    for turn in range(max(map(len, lots))):
        yield {
            place: rank
            for rank, lots_of_rank in zip(ranks, lots, strict=True)
            for place in (lots_of_rank[turn] if turn < len(lots_of_rank) else ())
        }


def _work(shape: Size) -> int:
    return min(shape) * shape.numel()  # of a product X X^T of the shorter side, as in Newton-Schulz iterations


def _computed(pieces: list[_Piece], groups: Sequence[_Group], compute: Compute) -> list[Tensor]:
    """The same pieces of the results: pieces go to the owners along one group after the other, and back."""
    if not groups or not pieces:
        return compute([piece.values for piece in pieces])
    (group, *others), like = groups, pieces[0].values
    sent = [[place for place, it in enumerate(pieces) if it.owner[0] == rank] for rank in range(group.size)]
    mine = [pieces[place] for place in sent[group.rank]]
    shapes = [[piece.shape_at(rank) for piece in mine] for rank in range(group.size)]
    received = _exchanged([[pieces[place].values for place in some] for some in sent], shapes, like, group)
    joined = [
        replace(piece, values=torch.cat(values, piece.cuts[0][0]), owner=piece.owner[1:], cuts=piece.cuts[1:])
        for piece, *values in zip(mine, *received, strict=True)
    ]
    results = _computed(joined, others, compute)
    cut = [it.split(piece.cuts[0][1], piece.cuts[0][0]) for it, piece in zip(results, mine, strict=True)]
    back = [[it[rank] for it in cut] for rank in range(group.size)]
    shapes = [[pieces[place].values.shape for place in some] for some in sent]
    computed = list[Any](pieces)
    for some, values in zip(sent, _exchanged(back, shapes, like, group), strict=True):
        for place, value in zip(some, values, strict=True):
            computed[place] = value
    return computed


def _exchanged(
    sent: Sequence[Sequence[Tensor]], shapes: Sequence[Sequence[Size]], like: Tensor, group: _Group
) -> list[list[Tensor]]:
    """The tensors that each rank of a group has sent to this one, of the given shapes; `sent` goes to each."""
    flat = [it.reshape(-1).to(like.dtype) for some in sent for it in some]
    counts = [[shape.numel() for shape in some] for some in shapes]
    received = like.new_empty(sum(map(sum, counts)))
    torch.distributed.all_to_all_single(
        received,
        torch.cat(flat) if flat else like.new_empty(0),
        [sum(some) for some in counts],
        [sum(it.numel() for it in some) for some in sent],
        group=group.group,
    )
    pieces = iter(received.split([count for some in counts for count in some]))
    return [[next(pieces).view(shape) for shape in some] for some in shapes]
