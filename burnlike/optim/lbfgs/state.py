"""The state of L-BFGS, its record, and the direction that follows from it."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordMismatchError
from ...record import Record
from ..core.state import flatten, map_tensors, unflatten

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
    """

    history_s: list[Tensor] = field(default_factory=list)
    history_y: list[Tensor] = field(default_factory=list)
    d: Tensor | None = None
    t: float | None = 1.0
    prev_flat_grad: Tensor | None = None
    prev_loss: float | None = None
    g_iter: int = 0

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
        tensors, values = flatten(self)
        lengths = {name: {"len": len(getattr(self, name))} for name in _HISTORIES}
        values = {name: value for name, value in values.items() if name not in _HISTORIES}
        return Record(tensors, {**lengths, **values}, source="the record of Lbfgs")


def state_of(record: Record) -> LbfgsState:
    """The state that a record holds, in memory of its own; RecordMismatchError if it is none or contradicts itself."""
    values: dict[str, Any] = dict(record.values)
    entries = {name: values.pop(name, None) for name in _HISTORIES}
    lengths = {name: it.get("len") if isinstance(it, dict) else None for name, it in entries.items()}
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
    found = {name: len(getattr(state, name)) for name in _HISTORIES}
    shapes = {tuple(it.shape) for it in state.vectors}
    floats = all(it.is_floating_point() for it in state.vectors)
    if found != lengths or len({*found.values()}) > 1 or len(shapes) > 1 or not floats or state.g_iter < 0:
        raise RecordMismatchError(
            f"{record.source} contradicts itself: expected histories of one length and vectors of one size, got lengths"
            f" {found} (said: {lengths}) and shapes {sorted(shapes)}. The optimizer is as it was"
        )
    incomplete = state.g_iter > 0 and (state.prev_flat_grad is None or state.d is None)
    if incomplete or any(len(shape) != 1 for shape in shapes):
        raise RecordMismatchError(
            f"{record.source} is none of Lbfgs: expected vectors, `d` and `prev_flat_grad` among them, got shapes"
            f" {sorted(shapes)}. The optimizer is as it was"
        )
    return state
