"""KernelOptimizer: rules whose step over all parameters is one call of a native kernel."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ...errors import ConfigError, DeviceError, DTypeError
from ...module.torch_objects.wrappers import is_distributed
from ...ops import StepOptions, scale_count
from ..core.gradient_transform import PLAIN, finish, is_skipped
from ..core.sharded import Parts
from ..core.state import map_tensors
from .moments import Moment, pack, placed
from .simple_optimizer import ListOptimizer

State = TypeVar("State")


class KernelMoment(NamedTuple):
    """One moment of all parameters, as kernels take it."""

    tensors: Sequence[Tensor]
    scales: Sequence[Tensor]


class ReadyStates(list[Any]):
    """States of parameters with what a kernel takes of them, which steps reuse as long as they are given this list."""

    holders: Sequence[Any]  # the part of each state that has the moments
    moments: Sequence[KernelMoment]  # of the rule, in its order
    new: Sequence[bool]  # for each state whether no step has been taken with it; empty if one has with all
    made_for: tuple[Moment, ...]  # what the rule kept then: with another configuration it may keep more


class KernelOptimizer(ListOptimizer[State]):
    """A rule with a kernel that follows all options of a step, and the `moments` that `__init__` says it keeps."""

    fused = True
    moments: tuple[Moment, ...]

    def first(self, fields: dict[str, Tensor]) -> State:
        """The state before the first step, of the `fields` for the moments, zeros, and for their scales."""
        return self.state_type(**fields)

    def holder(self, state: Any) -> Any:
        """The part of a state that has the moments as its fields; None if the state has none yet."""
        return state

    @abstractmethod
    def update(
        self, lr: float, tensors: Sequence[Tensor], grads: Sequence[Tensor], states: ReadyStates, options: StepOptions
    ) -> None: ...

    def state_shape(self, field: str, shape: torch.Size) -> torch.Size:
        name = field.rpartition(".")[2]
        is_scales = name in [moment.scales for moment in self.moments]
        return torch.Size([scale_count(shape.numel())]) if is_scales else shape

    def check_parameter(self, path: str, tensor: Tensor) -> None:
        coded = [moment.field for moment in self.moments if moment.dtype == "blockwise8"]
        if coded and is_distributed(tensor):
            raise ConfigError(
                f"'{path}' is sharded, and {coded[0]}: blockwise8 can't be: blocks would not end where parts do; "
                "take bfloat16"
            )

    @torch.no_grad()
    def step_many(
        self,
        lr: float,
        tensors: Sequence[Tensor],
        grads: Sequence[Tensor],
        states: Sequence[State | None],
        options: StepOptions = PLAIN,
    ) -> Sequence[State | None]:
        if isinstance(states, ReadyStates) and states.made_for == self.moments:
            ready = states
        else:
            new = [self._is_new(state) for state in states]
            if any(new) and options.skip is not None:
                # A kernel that skips leaves zeros behind, which are not the same as no state.
                if is_skipped(options):
                    finish(tensors, grads, options, written=False)
                    return states
                options = replace(options, skip=None)
            ready = self._ready(tensors, states, new)
        try:
            self.update(lr, tensors, grads, ready, options)
        except (DeviceError, DTypeError):  # the module was moved or widened, or the states were loaded
            # States of their own, though of shared memory: `ready` stays as it is if this is refused, too.
            moved = [
                map_tensors(state, lambda value, to=tensor: placed(value, to).detach())
                for tensor, state in zip(tensors, ready, strict=True)
            ]
            ready = self._ready(tensors, moved, ready.new)
            self.update(lr, tensors, grads, ready, options)
        ready.new = ()
        return ready

    def _ready(self, tensors: Sequence[Tensor], states: Sequence[State | None], new: Sequence[bool]) -> ReadyStates:
        ready = ReadyStates(
            self._first(tensor) if self._is_new(state) else state for tensor, state in zip(tensors, states, strict=True)
        )
        ready.holders = [self.holder(state) for state in ready] if self.moments else []
        ready.moments = [self._handed(moment, tensors, ready.holders) for moment in self.moments]
        ready.new = new if any(new) else ()
        ready.made_for = self.moments
        return ready

    def _is_new(self, state: Any) -> bool:
        return state is None or (bool(self.moments) and self.holder(state) is None)

    def _first(self, tensor: Tensor) -> State:
        fields: dict[str, Tensor] = {}
        for moment in self.moments:
            fields |= moment.zeros(tensor)
        return self.first(fields)

    @staticmethod
    def _handed(moment: Moment, tensors: Sequence[Tensor], holders: Sequence[Any]) -> KernelMoment:
        for tensor, holder in zip(tensors, holders, strict=True):
            if getattr(holder, moment.field) is None:  # amsgrad has been turned on
                setattr(holder, moment.field, moment.zeros(tensor)[moment.field])
        handed = [getattr(holder, moment.field) for holder in holders]
        # A moment of another shape than its parameter is left alone, for the kernel to refuse.
        fit = all(it.shape == tensor.shape for it, tensor in zip(handed, tensors, strict=True))
        if fit and not isinstance(tensors, Parts):
            each, handed = pack(handed)
            for holder, it in zip(holders, each, strict=True):
                setattr(holder, moment.field, it)
        scales = []
        if moment.scales is not None:
            coded = [holder for holder in holders if getattr(holder, moment.scales) is not None]
            for holder in coded:
                scales.append(getattr(holder, moment.scales).float())  # a record of half precision has others
                setattr(holder, moment.scales, scales[-1])
        return KernelMoment(handed, scales)
