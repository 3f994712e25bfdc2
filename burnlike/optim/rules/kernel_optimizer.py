"""KernelOptimizer: rules whose step over all parameters is one call of a native kernel; how they keep moments."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ...errors import ConfigError, DeviceError, DTypeError
from ...module.torch_objects.wrappers import is_distributed
from ...ops import StepOptions, scale_count
from ..core.gradient_transform import PLAIN, computing_dtype, finish, is_skipped
from ..core.sharded import Parts
from ..core.state import map_tensors
from .config_base import StateDtype
from .simple_optimizer import ListOptimizer

State = TypeVar("State")

# Values up to which a moment is packed, if it has any: handing a tensor to a kernel costs more than a small one's step.
# Above, a step's time is in its values, and packing would cost memory in vain.
SMALL = 16384

# Values from which a moment is kept in 8 bits, if that is asked: below, there is next to nothing to save.
QUANTIZED_FROM = 4096


@dataclass(frozen=True, slots=True)
class Moment:
    """One of the moments that a rule keeps of each parameter: its field in the state, and how it is kept.

    `scales` is the field of its scales when it is kept in 8 bits; None if it can't be.
    """

    field: str
    dtype: StateDtype = "auto"
    scales: str | None = None
    is_signed: bool = True

    def zeros(self, tensor: Tensor) -> dict[str, Tensor]:
        """The fields of a state before the first step of the parameter `tensor`."""
        if self.dtype == "blockwise8" and self.scales is not None and tensor.numel() >= QUANTIZED_FROM:
            codes = torch.int8 if self.is_signed else torch.uint8
            scales = torch.zeros(scale_count(tensor.numel()), dtype=torch.float32, device=tensor.device)
            return {self.field: _zeros(tensor, codes), self.scales: scales}
        named = {"float32": torch.float32, "bfloat16": torch.bfloat16}
        return {self.field: _zeros(tensor, named.get(self.dtype, computing_dtype(tensor.dtype)))}


def placed(value: Tensor, tensor: Tensor) -> Tensor:
    """A part of a state where its parameter is, in a precision that the kernels take beside that of `tensor`."""
    fits = value.dtype in (tensor.dtype, torch.float32, torch.bfloat16) or not value.is_floating_point()
    return value.to(tensor.device, value.dtype if fits else computing_dtype(tensor.dtype))


def pack(moments: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Put each run of small moments into one flat tensor, end to end; codes of 8 bits stay as they are.

    It gives for each moment a tensor of its shape and values, and the list that kernels take: flat tensors for the
    runs, the others as they are. Both share memory.
    """
    each: list[Tensor] = []
    handed: list[Tensor] = []
    for run in _runs(moments):
        if len(run) == 1:
            each += run
            handed += run
            continue
        flat = torch.cat([moment.flatten() for moment in run])
        parts = flat.split([moment.numel() for moment in run])
        each += [part.view(moment.shape) for part, moment in zip(parts, run, strict=True)]
        handed.append(flat)
    return each, handed


# Packed, a step over 300 small parameters takes half the time.
def _runs(moments: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Moments in a row that one tensor holds, each at a multiple of 16 bytes, which CUDA's kernels read at once."""
    run: list[Tensor] = []
    for moment in moments:
        if run and not (
            (moment.dtype, moment.device) == (run[-1].dtype, run[-1].device)
            and _is_packed(moment)
            and _is_packed(run[-1])
            and run[-1].nbytes % 16 == 0
        ):
            yield run
            run = []
        run.append(moment)
    if run:
        yield run


def _is_packed(moment: Tensor) -> bool:
    return 0 < moment.numel() <= SMALL and moment.is_floating_point() and moment.is_contiguous()


def _laid_out(moment: Tensor, tensor: Tensor) -> Tensor:
    """The moment in the layout of its parameter, as in channels_last: one from a record is contiguous."""
    if not moment.is_floating_point() or tensor.is_contiguous() or moment.stride() == tensor.stride():
        return moment
    return torch.empty_like(tensor, dtype=moment.dtype, device=moment.device).copy_(moment)


def _zeros(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    # Codes have blocks in the order of dimensions; others lie as the parameter does, so that kernels need no copies.
    memory_format = torch.preserve_format if dtype.is_floating_point else torch.contiguous_format
    return torch.zeros_like(tensor, dtype=dtype, memory_format=memory_format)


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
        # As good as every step: nothing is looked up or packed again while the caller hands back what it was given.
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
        ready = ReadyStates()
        for tensor, state in zip(tensors, states, strict=True):
            if self._is_new(state):
                fields = [moment.zeros(tensor) for moment in self.moments]
                state = self.first({name: value for field in fields for name, value in field.items()})
            ready.append(state)
        ready.holders = [self.holder(state) for state in ready] if self.moments else []
        ready.moments = [self._handed(moment, tensors, ready.holders) for moment in self.moments]
        ready.new = new if any(new) else ()
        ready.made_for = self.moments
        return ready

    def _is_new(self, state: Any) -> bool:
        return state is None or (bool(self.moments) and self.holder(state) is None)

    @staticmethod
    def _handed(moment: Moment, tensors: Sequence[Tensor], holders: Sequence[Any]) -> KernelMoment:
        for tensor, holder in zip(tensors, holders, strict=True):
            if getattr(holder, moment.field) is None:  # amsgrad has been turned on
                setattr(holder, moment.field, moment.zeros(tensor)[moment.field])
        # Views of packed moments replace the state's own tensors, so that records and kernels see the same values.
        handed = [getattr(holder, moment.field) for holder in holders]
        # A moment of another shape than its parameter is left alone, for the kernel to refuse.
        fit = all(it.shape == tensor.shape for it, tensor in zip(handed, tensors, strict=True))
        if fit and not isinstance(tensors, Parts):
            each, handed = pack([_laid_out(it, tensor) for it, tensor in zip(handed, tensors, strict=True)])
            for holder, packed in zip(holders, each, strict=True):
                setattr(holder, moment.field, packed)
        scales = []
        if moment.scales is not None:
            coded = [holder for holder in holders if getattr(holder, moment.scales) is not None]
            for holder in coded:
                scales.append(getattr(holder, moment.scales).float())  # a record of half precision has others
                setattr(holder, moment.scales, scales[-1])
        return KernelMoment(handed, scales)
