"""The state of L-BFGS, its record, and the direction that follows from it; all parameters of a module as one vector."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.fsdp import reshard
from ...errors import ArgumentError, DeviceError, RecordMismatchError, ShapeError
from ...module import Param, params
from ...module.torch_objects.wrappers import is_distributed, part_of
from ...record import Record
from ...record.layout import LAYOUTS
from ..core.gradient_transform import check_alike, meshes_of
from ..core.sharded import local, whole
from ..core.state import flatten, map_tensors, unflatten
from ..gradients.gradients import GradientsParams
from ..states.matching import noted_layouts

_HISTORIES = ("history_s", "history_y")


@dataclass(slots=True, eq=False)
class LbfgsState:
    """The state of L-BFGS between steps, in Burn's form. Each tensor is a vector of all parameters.

    Attributes:
        history_s: the last displacements, the newest last.
        history_y: the changes of the gradient on them.
        d: the last direction.
        t: the last step length.
        prev_flat_grad: the gradient at the start of the last iteration.
        prev_loss: the loss that the last step ended with.
        g_iter: iterations so far.
        layouts: how the parameters lie that the vectors are of, by number; None where that is not known.
    """

    history_s: list[Tensor] = field(default_factory=list)
    history_y: list[Tensor] = field(default_factory=list)
    d: Tensor | None = None
    t: float | None = 1.0
    prev_flat_grad: Tensor | None = None
    prev_loss: float | None = None
    g_iter: int = 0
    layouts: Mapping[str, Any] | None = None

    @property
    def vectors(self) -> list[Tensor]:
        return [it for it in (*self.history_s, *self.history_y, self.d, self.prev_flat_grad) if it is not None]

    def copy(self, device: torch.device, dtype: torch.dtype) -> "LbfgsState":
        """A state with lists of its own, its tensors on `device` in `dtype`; they are shared where they are already."""
        moved = map_tensors(self, lambda it: it.to(device, dtype))
        return replace(moved, **{name: list(getattr(moved, name)) for name in _HISTORIES})

    def forget(self, most: int) -> None:
        """Drop the oldest pairs above `most`."""
        del self.history_s[:-most], self.history_y[:-most]

    def direction(self, gradient: Tensor) -> Tensor:
        """The direction of a step: -H @ gradient, where H approximates the inverse Hessian by the history.

        The two-loop recursion, Nocedal & Wright 2006, algorithm 7.4, scaled by equation 7.20. No number goes to the
        host.
        """
        d = gradient.neg()
        if not self.history_s:
            return d
        pairs = [(s, y, y.dot(s).reciprocal()) for s, y in zip(self.history_s, self.history_y, strict=True)]
        alphas = []
        for s, y, rho in reversed(pairs):
            alphas.append(s.dot(d) * rho)
            d.addcmul_(y, alphas[-1], value=-1)
        s, y, _ = pairs[-1]
        d.mul_(y.dot(s) / y.dot(y))
        for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
            d.addcmul_(s, alpha - y.dot(d) * rho)
        return d

    def into_record(self) -> Record:
        """The record, with the names that Burn gives: `history_s.0`, ..., `history_s.len`, `d`, `t`, ..."""
        tensors, values = flatten(replace(self, layouts=None))
        lengths = {name: {"len": len(getattr(self, name))} for name in _HISTORIES}
        values = {name: value for name, value in values.items() if name not in _HISTORIES}
        notes = {} if self.layouts is None else {LAYOUTS: self.layouts}
        return Record(tensors, {**lengths, **values, **notes}, source="the record of Lbfgs")


def state_of(record: Record) -> LbfgsState:
    """The state that a record holds, in memory of its own; RecordMismatchError if it is none or contradicts itself."""
    values: dict[str, Any] = dict(record.values)
    layouts = values.pop(LAYOUTS, None)
    entries = {name: values.pop(name, None) for name in _HISTORIES}
    lengths = {name: entry.get("len") if isinstance(entry, dict) else None for name, entry in entries.items()}
    try:
        if None in lengths.values():
            raise RecordMismatchError("it has no history")
        values |= {name: [] for name, length in lengths.items() if length == 0}
        tensors = {name: record.tensors[name].detach().clone() for name in record.tensors}
        state = unflatten(LbfgsState, tensors, values)
    except RecordMismatchError as error:
        raise RecordMismatchError(
            f"{record.source} is none of Lbfgs: {error}; take the file that was saved from its into_record(). The"
            " optimizer is as it was"
        ) from error
    counts = {name: len(getattr(state, name)) for name in _HISTORIES}
    shapes = {tuple(vector.shape) for vector in state.vectors}
    floats = all(vector.is_floating_point() for vector in state.vectors)
    if counts != lengths or len({*counts.values()}) > 1 or len(shapes) > 1 or not floats or state.g_iter < 0:
        raise RecordMismatchError(
            f"{record.source} contradicts itself: expected histories of one length and vectors of one size, got lengths"
            f" {counts} (said: {lengths}) and shapes {sorted(shapes)}. The optimizer is as it was"
        )
    incomplete = state.g_iter > 0 and (state.prev_flat_grad is None or state.d is None)
    if incomplete or any(len(shape) != 1 for shape in shapes):
        raise RecordMismatchError(
            f"{record.source} is none of Lbfgs: expected vectors, `d` and `prev_flat_grad` among them, got shapes"
            f" {sorted(shapes)}. The optimizer is as it was"
        )
    state.layouts = layouts
    return state


class FlatParameters:
    """The parameters of a module end to end, in the order of `params`, frozen ones too.

    One without gradient has zeros in the vector of gradients, and is never written. Under `fully_shard` each rank has
    the whole vectors. Their `dtype` is the widest of the parameters', float32 at least; `moving` are the parameters
    that are updated, none until `choose`.
    """

    def __init__(self, module: nn.Module) -> None:
        self.params: list[Param] = params(module, "weight")
        if not self.params:
            raise ArgumentError(f"Lbfgs: expected a module with parameters, got a {type(module).__name__} without any")
        devices = {param.tensor.device: param.path for param in self.params}
        if len(devices) > 1:
            shown = ", ".join(f"'{path}' on {device}" for device, path in devices.items())
            raise DeviceError(f"Lbfgs: expected all parameters on one device, got {shown}")
        self.device = self.params[0].tensor.device
        self.dtype = reduce(torch.promote_types, (param.tensor.dtype for param in self.params), torch.float32)
        ends = list(accumulate(param.tensor.numel() for param in self.params))
        self._places = {param.id: slice(*it) for param, it in zip(self.params, pairwise([0, *ends]), strict=True)}
        self.size = ends[-1]
        self.moving: list[Param] = []
        self._meshes = meshes_of(self.params)
        self._groups = _groups_of(module, [param.tensor for param in self.params])
        self._module = module

    def layouts(self) -> dict[str, Any]:
        """The layouts of the parameters, by number, that lie otherwise than in Burn."""
        notes = noted_layouts([self._module])
        return {str(number): notes[str(param.id)] for number, param in enumerate(self.params) if str(param.id) in notes}

    def check_layouts(self, state: LbfgsState, source: str) -> dict[str, Any]:
        """`layouts`, if the vectors of the state are of parameters that lie so; else a RecordMismatchError."""
        ours = self.layouts()
        theirs, expected = (_transposed(it) for it in (state.layouts or {}, ours))
        if state.vectors and theirs != expected:
            number = min({it for it in {*theirs, *expected} if theirs.get(it) != expected.get(it)}, key=int)
            path = self.params[int(number)].path if int(number) < len(self.params) else f"number {number}"
            difference = "lies otherwise there" if state.layouts is not None else "is not said to lie as it does here"
            raise RecordMismatchError(
                f"{source} does not fit the module: the parameter '{path}' {difference}. Torch's layers and Burn's have"
                " other layouts, and the state of Lbfgs is one for all: load it into a model of the layers that it is"
                " from, or begin it anew. The optimizer is as it was"
            )
        return ours

    def choose(self, grads: GradientsParams) -> None:
        """Let the parameters that have a gradient be those that move; errors are those of `gradient`."""
        self._check(grads)
        ids = {param.id for param in grads.params}
        self.moving = [param for param in self.params if param.id in ids]

    def values(self) -> Tensor:
        """A copy of the values of what moves; zeros elsewhere."""
        flat = self._zeros()
        for param in self.moving:
            self._part(flat, param).copy_(whole(param.tensor.detach()))
        return flat

    def write(self, flat: Tensor) -> None:
        # Gathered copies of sharded parameters would keep the values of the trial before.
        reshard(param.tensor for param in self.moving)
        for param in self.moving:
            tensor, values = param.tensor.detach(), self._part(flat, param)
            if is_distributed(tensor):
                local(tensor).copy_(local(part_of(values.to(tensor.dtype), tensor)))
            else:
                tensor.copy_(values)

    def gradient(self, grads: GradientsParams) -> Tensor:
        """The gradients of what moves as a vector; an error for one of another module or of another shape."""
        self._check(grads)
        flat = self._zeros()
        value_of = {param.id: value for param, value in zip(grads.params, grads.values, strict=True)}
        for param in self.moving:
            if (value := value_of.get(param.id)) is not None:
                self._part(flat, param).copy_(whole(value))
        return flat

    def still(self, flat: Tensor) -> Tensor:
        """The vector itself, set to zero where nothing moves."""
        moving = {param.id for param in self.moving}
        for param in self.params:
            if param.id not in moving:
                self._part(flat, param).zero_()
        return flat

    def agreed(self, loss: float) -> float:
        """The mean of a loss over the ranks that train the module together, so that all decide alike."""
        if not self._groups:
            return loss
        # In float64, and on all ranks the same bits: a search that ends on one rank alone leaves the others waiting for
        # ever.
        total = torch.tensor([loss], dtype=torch.float64, device=self.device)
        for group in self._groups:
            torch.distributed.all_reduce(total, group=group)
            total /= torch.distributed.get_world_size(group)
        return total.item()

    def _zeros(self) -> Tensor:
        return torch.zeros(self.size, dtype=self.dtype, device=self.device)

    def _part(self, flat: Tensor, param: Param) -> Tensor:
        return flat[self._places[param.id]].view(param.tensor.shape)

    def _check(self, grads: GradientsParams) -> None:
        check_alike(self._meshes, grads.params)
        by_id = {param.id: param for param in self.params}
        for param, value in zip(grads.params, grads.values, strict=True):
            if param.id not in by_id:
                raise ArgumentError(
                    f"Lbfgs: the closure gave a gradient of '{param.path}' ({param.id}), which is no parameter of the"
                    " module; take the gradients of the module that the closure is given"
                )
            shape = by_id[param.id].tensor.shape
            if value.shape != shape:
                raise ShapeError(
                    f"the gradient of '{param.path}' has shape {list(value.shape)}, expected {list(shape)}; the"
                    " parameters are as they were"
                )


def _transposed(layouts: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of layouts that make them differ, of the parameters that do not lie as in Burn."""
    parts = {number: _parts_of(note) for number, note in layouts.items()}
    return {number: part for number, part in parts.items() if part != [False]}


def _parts_of(note: Any) -> Any:
    try:
        flags = [bool(it["transposed"]) for it in note["parts"]]
        return [note["dim"], *flags] if len(flags) > 1 else flags
    except (TypeError, KeyError):
        return note


def _groups_of(module: nn.Module, tensors: list[Tensor]) -> list[Any]:
    """The process groups over which losses are averaged: that of DDP, or those of the mesh of `fully_shard`."""
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return [module.process_group]
    sharded: Any = next(filter(is_distributed, tensors), None)
    if sharded is None:
        return []
    mesh = sharded.device_mesh
    return [mesh.get_group(dim) for dim in range(mesh.ndim)]
