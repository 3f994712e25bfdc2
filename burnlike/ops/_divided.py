"""Tensors that several processes share: ways from one division to another, and native ops on DTensors.

The ways take and give plain tensors, each process its part, and are torch's own (`DTensor.redistribute`); their
derivatives are what the other processes need. A native op computes on parts where it goes row by row, and else on whole
tensors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from .._torch_compat.fsdp import distributed_type
from ..errors import ArgumentError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def copied(x: Tensor, mesh: "DeviceMesh") -> Tensor:
    """`x`, which all processes have, for a computation of which each does a part: their gradients are summed."""
    from torch.distributed.tensor import DTensor, Partial, Replicate

    # Without the check, in which torch sends the tensor to all processes to compare it.
    return DTensor.from_local(x, mesh, [Replicate()], run_check=False).to_local(grad_placements=[Partial()])


def summed(x: Tensor, mesh: "DeviceMesh", dim: int | None = None) -> Tensor:
    """The sum over the processes; with `dim`, of it the own part along that dimension."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    goal = Replicate() if dim is None else Shard(dim)
    return DTensor.from_local(x, mesh, [Partial()], run_check=False).redistribute(placements=[goal]).to_local()


def largest(x: Tensor, mesh: "DeviceMesh") -> Tensor:
    """The largest over the processes, without a derivative."""
    from torch.distributed.tensor import DTensor, Partial, Replicate

    partial = DTensor.from_local(x.detach(), mesh, [Partial("max")], run_check=False)
    return partial.redistribute(placements=[Replicate()]).to_local()


def gathered(x: Tensor, mesh: "DeviceMesh", dim: int, *, summed_gradients: bool = False) -> Tensor:
    """The whole of what each process has an equal part of along `dim`.

    With `summed_gradients` each process computes a part of what follows, else all of it.
    """
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    whole = DTensor.from_local(x, mesh, [Shard(dim % x.dim())], run_check=False).redistribute(placements=[Replicate()])
    return whole.to_local(grad_placements=[Partial()] if summed_gradients else None)


def own_part(x: Tensor, mesh: "DeviceMesh", dim: int) -> Tensor:
    """The part along `dim` of `x`, which all processes have; it divides evenly."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    whole = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    return whole.redistribute(placements=[Shard(dim % x.dim())]).to_local()


class _Logits(local):  # a block in one thread is not to change the heads of another
    divided = False


_LOGITS = _Logits()


@contextmanager
def divided_logits() -> Iterator[None]:
    """A `with` block in which a head that is divided by classes gives a DTensor: for losses that take one."""
    before, _LOGITS.divided = _LOGITS.divided, True
    try:
        yield
    finally:
        _LOGITS.divided = before


def logits_of_parts(x: Tensor, mesh: "DeviceMesh") -> Tensor:
    """The logits of which each process has those of some classes: whole, or a DTensor within `divided_logits()`."""
    from torch.distributed.tensor import DTensor, Shard

    if not _LOGITS.divided:
        return gathered(x, mesh, -1).clone()  # no view: fully_shard warns of these
    return DTensor.from_local(x, mesh, [Shard(x.dim() - 1)], run_check=False)


def rows_of(logits: Any) -> Tensor:
    """Logits `[..., classes]` as `[n, classes]`, a DTensor where they are one."""
    if not are_divided(logits) or logits.device_mesh.ndim > 1 or logits.dim() < 2:
        return logits.flatten(0, -2)
    from torch.distributed.tensor import DTensor, Shard

    (place,), last = logits.placements, logits.dim() - 1
    if type(place) is not Shard or place.dim != last:
        return logits.flatten(0, -2)
    # Not by the DTensor's own flatten: torch remembers the groups of an earlier job of the process for it.
    return DTensor.from_local(logits.to_local().flatten(0, -2), logits.device_mesh, [Shard(1)], run_check=False)


def mesh_of_classes(logits: Any) -> Any:
    """The processes of which each has the logits of an equal number of classes and all rows; None for others."""
    from torch.distributed.tensor import Shard

    mesh, places = logits.device_mesh, logits.placements
    is_divided = logits.dim() == 2 and mesh.ndim == 1 and type(places[0]) is Shard and places[0].dim == 1
    return mesh if is_divided and logits.shape[1] % mesh.size() == 0 else None


def whole(tensor: Any) -> Tensor:
    """The whole of a DTensor, the same in each process; `tensor` itself where it is none."""
    return tensor.full_tensor() if are_divided(tensor) else tensor


class Parts(NamedTuple):
    """The arguments of an op that may be divided, for one that computes on parts.

    Attributes:
        free: dimensions of the first argument that may be divided; None: all but the last.
        like: the places of further arguments that are divided in the same way. All others are whole.
    """

    free: tuple[int, ...] | None = None
    like: tuple[int, ...] = ()


RULES: Mapping[str, Parts] = {
    "rms_norm": Parts(),
    "layer_norm": Parts(),
    "add_rms_norm": Parts(like=(1,)),
    "add_layer_norm": Parts(like=(1,)),
    "bias_gelu": Parts(),
    "swiglu": Parts(like=(1,)),
    "geglu": Parts(like=(1,)),
    "rotary": Parts(free=(1,), like=(1,)),
    "attention": Parts(free=(1,), like=(1, 2)),
}
"""Ops that go row by row, along the last dimension, and those that go head by head."""


PLAIN = (Tensor, nn.Parameter, type(None))
"""Types of arguments that are whole."""


def are_divided(*arguments: Any) -> bool:
    """True if there is a DTensor among the arguments."""
    for argument_type in {*map(type, arguments)}:
        if argument_type not in PLAIN and (kind := distributed_type()) is not None and issubclass(argument_type, kind):
            return True
    return False


def all_divided(*arguments: Any) -> tuple[Any, ...]:
    """The arguments, where some are DTensors: plain tensors become such, which all processes have the whole of."""
    from torch.distributed.tensor import DTensor, Replicate

    mesh = next(argument.device_mesh for argument in arguments if isinstance(argument, DTensor))
    return tuple(
        DTensor.from_local(argument, mesh, [Replicate()] * mesh.ndim, run_check=False)
        if isinstance(argument, Tensor) and not isinstance(argument, DTensor)
        else argument
        for argument in arguments
    )


def on_parts(name: str, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """An op's result on DTensors: on parts, by its rule, or on whole tensors.

    Plain tensors among the arguments are whole in all processes. The results are DTensors.
    """
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    arguments = all_divided(*arguments)
    mesh = next(argument.device_mesh for argument in arguments if isinstance(argument, DTensor))
    rule = RULES.get(name)
    aligned = () if rule is None else (0, *rule.like)
    places = [Replicate()] * mesh.ndim if rule is None else _kept(mesh, rule, arguments)
    whole = [Replicate()] * mesh.ndim
    of_whole = [Partial() if isinstance(place, Shard) else place for place in places]

    def part(index: int, value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        goal, grads = (places, places) if index in aligned else (whole, of_whole)
        return value.redistribute(placements=goal).to_local(grad_placements=grads)

    def joined(value: Any) -> Any:
        is_tensor = isinstance(value, Tensor)
        return DTensor.from_local(value, mesh, places, run_check=False) if is_tensor else value

    results = compute(*(part(index, argument) for index, argument in enumerate(arguments)))
    return tuple(map(joined, results)) if isinstance(results, tuple) else joined(results)


def _kept(mesh: "DeviceMesh", rule: Parts, arguments: tuple[Any, ...]) -> list[Any]:
    """The placements that the first argument keeps."""
    from torch.distributed.tensor import Replicate, Shard

    x = arguments[0]
    alike = [it for it in (arguments[place] for place in (0, *rule.like)) if it is not None]
    free = range(x.dim() - 1) if rule.free is None else rule.free
    kept: list[Any] = []
    for dim, place in enumerate(x.placements):
        # Of this exact type: FSDP's parts along a dimension that is divided already are of another.
        fits = type(place) is Shard and place.dim in free and place not in kept
        fits = fits and all(tensor.shape[place.dim] % mesh.size(dim) == 0 for tensor in alike)
        kept.append(place if fits else Replicate())
    return kept


def parts_alike(op: str, **lists: Sequence[Any]) -> tuple[list[Tensor], ...]:
    """This process's parts of the tensors of several lists, for an op that goes element by element.

    Raises ArgumentError where those at one place of the lists are divided in different ways, or are summands.
    """
    names = [*lists]
    for index, alike in enumerate(zip(*lists.values(), strict=True)):
        ways = [getattr(it, "placements", None) for it in alike]
        for name, way in zip(names, ways, strict=True):
            if way != ways[0] or (way is not None and any(it.is_partial() for it in way)):
                raise ArgumentError(
                    f"{op}: expected {name}[{index}] to be divided among processes as {names[0]}[{index}] is,"
                    f" {_in_words(ways[0])}, without summands, got {_in_words(way)}; redistribute it first"
                )
    return tuple([value.to_local() if are_divided(value) else value for value in values] for values in lists.values())


def _in_words(placements: Any) -> str:
    return "whole" if placements is None else ", ".join(map(str, placements))
