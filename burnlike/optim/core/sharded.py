"""Steps under `fully_shard`: each rank updates the part of a parameter that it holds, and keeps that part of its state.

Most rules go element by element, so a part needs no other. Where a norm or a mean is of the whole, sums over the parts
are added up. Of whole matrices that are divided among ranks, one of them puts a matrix together, computes, and sends
parts of the result back (`shared_out`).
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Size, Tensor

from ..._torch_compat.fsdp import distributed_type
from ...errors import ConfigError
from ...module import Param, ParamId
from ...module.torch_objects.wrappers import is_distributed, local as local, part_of
from ...ops._divided import whole as whole
from .state import map_fields


class Parts(list[Tensor]):
    """This rank's parts of the DTensors `wholes`.

    What is kept of one has memory of its own, which torch's checkpoints ask for.
    """

    def __init__(self, parts: Iterable[Tensor], wholes: Sequence[Any]) -> None:
        super().__init__(parts)
        self.wholes = wholes


def wholes_of(tensors: Sequence[Tensor]) -> Sequence[Any]:
    """The DTensors that `tensors` are parts of; themselves where they are no parts."""
    return tensors.wholes if isinstance(tensors, Parts) else tensors


def chosen(tensors: Sequence[Tensor], places: Sequence[int]) -> list[Tensor]:
    """Some of `tensors`, as parts where they are parts."""
    some = [tensors[place] for place in places]
    return Parts(some, [tensors.wholes[place] for place in places]) if isinstance(tensors, Parts) else some


def in_place_of(values: list[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Other values of `tensors`, as parts of the same wholes where these are parts."""
    return Parts(values, tensors.wholes) if isinstance(tensors, Parts) else values


@dataclass(frozen=True, slots=True)
class OtherStages:
    """The other processes of a model that is cut into stages: what a norm of all gradients needs of them.

    Attributes:
        summed: the sum of a tensor over the processes; all call it in each step, and for as many values.
        counted_elsewhere: ids of parameters that an earlier stage has, too, and whose gradients it counts.
    """

    summed: Callable[[Tensor], Tensor]
    counted_elsewhere: frozenset[ParamId]

    def own_sum(self, squares: Tensor, ids: Sequence[ParamId | None]) -> Tensor:
        """The sum of what this process counts, float64 `[1]`, of the sums of squares of its gradients."""
        counts = torch.tensor([it not in self.counted_elsewhere for it in ids], device=squares.device, dtype=torch.bool)
        return squares.where(counts, 0.0).sum(0, keepdim=True)


StateShape = Callable[[str, torch.Size], torch.Size | None]
"""`SimpleOptimizer.state_shape`: the shape of a field of the state of a parameter of some shape; None for any."""


@dataclass(frozen=True, slots=True)
class Division:
    """The division of a parameter or a tensor of its state: device mesh, placements, shape and stride of the whole,
    shape of this rank's part.
    """

    device_mesh: Any
    placements: tuple[Any, ...]
    shape: torch.Size
    stride: tuple[int, ...]
    local_shape: torch.Size

    def of_field(self, field: str, state_shape: StateShape) -> "Division":
        """The same for a field of the parameter's state, divided along the dimensions that it shares."""
        shape = state_shape(field, self.shape)
        if shape is None:
            return self

        # Which dimensions a field shares is found by asking for a parameter that is longer by one along each.
        def follows(dim: int) -> bool:
            longer = torch.Size((*self.shape[:dim], self.shape[dim] + 1, *self.shape[dim + 1 :]))
            return len(shape) == len(longer) and state_shape(field, longer) != shape

        shared = [dim for dim in range(len(self.shape)) if follows(dim)]
        if len(shared) == len(self.shape):
            return self
        from torch.distributed.tensor import Replicate

        placements = tuple(it if divided_dim(it) in shared else Replicate() for it in self.placements)
        local_shape = state_shape(field, self.local_shape)
        assert local_shape is not None
        # The rules make such fields anew: contiguous, whatever the layout of the parameter is.
        contiguous = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
        return Division(self.device_mesh, placements, shape, contiguous, local_shape)


def division_of(tensor: Any) -> Division | None:
    """The way in which a parameter is sharded; None for a whole one."""
    if not is_distributed(tensor):
        return None
    return Division(tensor.device_mesh, tensor.placements, tensor.shape, tensor.stride(), local(tensor).shape)


def divided_dim(placement: Any) -> int | None:
    """The dimension of a tensor that a dimension of a mesh divides; None if it divides none.

    ConfigError for what is neither `Replicate` nor `Shard` or torch's strided form of it.
    """
    if placement.is_replicate():
        return None
    if placement.is_shard() or hasattr(placement, "split_factor"):
        return placement.dim
    raise ConfigError(f"expected a parameter that is divided by Shard or copied, got {placement!r}; take AdamW for it")


def local_state(state: Any, tensor: Tensor, state_shape: StateShape) -> Any:
    """The state of a parameter with this rank's part of each tensor that is whole or a DTensor."""
    division = division_of(tensor)
    if state is None or division is None:
        return state

    def part(field: str, value: Tensor) -> Tensor:
        if is_distributed(value):
            return local(value)
        divided = division.of_field(field, state_shape)
        if value.shape == divided.shape != divided.local_shape:
            return local(part_of(value, tensor, divided.placements)).clone()
        # A view of a larger tensor, such as one of a gathered state, would keep all of it.
        shares = isinstance(value, Tensor) and value.nbytes < value.untyped_storage().nbytes()
        return value.clone() if shares else value

    return map_fields(state, part)


def divided_state(state: Any, division: Division | None, state_shape: StateShape) -> Any:
    """The state of a parameter with this rank's parts as DTensors."""
    if division is None:
        return state
    from torch.distributed.tensor import DTensor

    def divided(field: str, value: Tensor) -> Tensor:
        of_field = division.of_field(field, state_shape)
        if is_distributed(value) or value.shape != of_field.local_shape:
            return value
        place = {"shape": of_field.shape, "stride": of_field.stride, "run_check": False}
        return DTensor.from_local(value, of_field.device_mesh, of_field.placements, **place)

    return map_fields(state, divided)


def summed_over_ranks(sums: Tensor, tensors: Sequence[Any]) -> Tensor:
    """Sums over this rank's parts of `tensors` as sums over the whole tensors: one reduction for each mesh."""
    totals = sums.clone()
    # All sums of a mesh in one reduction: each costs the ranks a round trip, however short it is.
    for (mesh, dims), some in _by_division(tensors, lambda _, it: not it.is_replicate()).items():
        totals[some] = _added_up(sums[some], mesh, dims)
    return totals


def sums_over_ranks(sums: Sequence[Tensor], tensors: Sequence[Any], dims: Sequence[int]) -> list[Tensor]:
    """Sums along one dimension of this rank's part of each tensor as sums along that of the whole: one reduction for
    each mesh.
    """
    totals = list(sums)
    by_division = _by_division(tensors, lambda place, it: divided_dim(it) == dims[place] % tensors[place].dim())
    for (mesh, mesh_dims), some in by_division.items():
        flat = _added_up(torch.cat([sums[place].reshape(-1) for place in some]), mesh, mesh_dims)
        for place, part in zip(some, flat.split([sums[place].numel() for place in some]), strict=True):
            totals[place] = part.view(sums[place].shape)
    return totals


def _by_division(
    tensors: Sequence[Any], counts: Callable[[int, Any], bool]
) -> dict[tuple[Any, tuple[int, ...]], list[int]]:
    """Places of DTensors, by their mesh and those of its dimensions whose placement `counts`, if there are any."""
    by_division: dict[Any, list[int]] = {}
    for place, tensor in enumerate(tensors):
        if is_distributed(tensor):
            dims = [dim for dim, placement in enumerate(tensor.placements) if counts(place, placement)]
            if dims:
                by_division.setdefault((tensor.device_mesh, tuple(dims)), []).append(place)
    return by_division


def _added_up(part: Tensor, mesh: Any, dims: Sequence[int]) -> Tensor:
    if part.numel():
        for dim in dims:
            torch.distributed.all_reduce(part, group=mesh.get_group(dim))
    return part


@torch.no_grad()
def placed_gradients(params: Sequence[Param], grads: Sequence[Tensor]) -> list[Tensor]:
    """The gradients, each divided among the ranks as its parameter.

    Under sequence parallelism each rank has a summand of the gradient of a replicated parameter (`Partial` of torch):
    these are added up. All ranks call it.
    """
    divided = distributed_type()
    if divided is None or not any(issubclass(it, divided) for it in set(map(type, grads))):
        return list(grads)
    both: list[tuple[Any, Any]] = [(grad, param.tensor) for param, grad in zip(params, grads, strict=True)]
    return [
        grad.redistribute(tensor.device_mesh, tensor.placements)
        if isinstance(grad, divided) and isinstance(tensor, divided) and grad.placements != tensor.placements
        else grad
        for grad, tensor in both
    ]


def added_up(grads: Sequence[Any]) -> Sequence[Tensor]:
    """The gradients; of each that ranks have summands of, the sum."""
    divided = distributed_type()
    if divided is None:
        return grads
    partial = [isinstance(grad, divided) and any(it.is_partial() for it in grad.placements) for grad in grads]
    if not any(partial):
        return grads
    from torch.distributed.tensor import Replicate

    return [
        grad.redistribute(placements=[Replicate() if it.is_partial() else it for it in grad.placements])
        if is_partial
        else grad
        for grad, is_partial in zip(grads, partial, strict=True)
    ]


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
    for place, tensor in enumerate(wholes):
        by_division.setdefault((tensor.device_mesh, _cut_last_first(tensor.placements)), []).append(place)
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
    dims = [dim for dim, placement in enumerate(placements) if divided_dim(placement) is not None]
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
    # The ranks of the groups that are left have pieces of the same matrices: either all of them skip the exchange, or
    # none.
    if not groups or not pieces:
        return compute([piece.values for piece in pieces])
    (group, *others), like = groups, pieces[0].values
    sent = [[place for place, piece in enumerate(pieces) if piece.owner[0] == rank] for rank in range(group.size)]
    mine = [pieces[place] for place in sent[group.rank]]
    shapes = [[piece.shape_at(rank) for piece in mine] for rank in range(group.size)]
    received = _exchanged([[pieces[place].values for place in some] for some in sent], shapes, like, group)
    joined = [
        replace(piece, values=torch.cat(values, piece.cuts[0][0]), owner=piece.owner[1:], cuts=piece.cuts[1:])
        for piece, *values in zip(mine, *received, strict=True)
    ]
    results = _computed(joined, others, compute)
    cut = [result.split(piece.cuts[0][1], piece.cuts[0][0]) for result, piece in zip(results, mine, strict=True)]
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
    # Results come back in the dtype of the iterations, as Muon's in bfloat16, and all ranks have to send one dtype.
    flat = [it.reshape(-1).to(like.dtype) for some in sent for it in some]
    counts = [[shape.numel() for shape in some] for some in shapes]
    received = like.new_empty(sum(map(sum, counts)))
    torch.distributed.all_to_all_single(
        received,
        torch.cat(flat) if flat else like.new_empty(0),
        [sum(some) for some in counts],
        [sum(tensor.numel() for tensor in some) for some in sent],
        group=group.group,
    )
    pieces = iter(received.split([count for some in counts for count in some]))
    return [[next(pieces).view(shape) for shape in some] for some in shapes]
