"""ForeachOptimizer: a formula over lists of tensors, with torch's foreach operations."""

from abc import abstractmethod
from collections.abc import Sequence
from operator import is_
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from ..._torch_compat import foreach
from ..core.gradient_transform import computing_dtype
from ..core.sharded import chosen, divided_dim, in_place_of
from ..core.state import map_tensors
from .simple_optimizer import ListOptimizer

Config = TypeVar("Config")
State = TypeVar("State")


class UniformStates(list[Any]):
    """States that the next step can use as they are: nothing in them has to be converted, or even looked into.

    Looking takes as long as the formula where tensors are small. Parameters and states are of one `dtype` and `device`.
    """

    dtype: torch.dtype
    device: torch.device


class ForeachOptimizer(ListOptimizer[State]):
    """A rule that is written over lists: `first` makes a state, `update` is the formula."""

    def state_shape(self, field: str, shape: torch.Size) -> torch.Size | None:
        return shape

    @abstractmethod
    def first(self, tensor: Tensor) -> State:
        """The state of a parameter before its first step; `tensor` has its values, float32 or float64."""

    @abstractmethod
    def update(self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[State]) -> None:
        """Update tensors and states in place. All tensors are on one device, float32, or all are float64.

        Gradients must not be changed. A tensor of a state may be written into, not replaced, unless it is None.
        Where parameters are divided, `tensors` are `Parts`.
        """

    def _step_with(
        self, lr: float, tensors: Sequence[Tensor], grads: list[Tensor], states: Sequence[State | None]
    ) -> Sequence[State | None]:
        if isinstance(states, UniformStates) and _are_of(tensors, states.dtype, states.device):
            self.update(lr, in_place_of([*tensors], tensors), grads, states)
            return states
        ready: list[Any] = list(states)
        for dtype in (torch.float32, torch.float64):
            places = [place for place, tensor in enumerate(tensors) if computing_dtype(tensor.dtype) == dtype]
            if places:
                some, *others = chosen(tensors, places), chosen(grads, places), [ready[place] for place in places]
                for place, state in zip(places, self._update(lr, dtype, some, *others), strict=True):
                    ready[place] = state
        # Looked at once here, so that the next step need not: see UniformStates.
        dtypes = {tensor.dtype for tensor in tensors}
        for state in ready:
            map_tensors(state, lambda it: dtypes.add(it.dtype) or it if it.is_floating_point() else it)
        if len(dtypes) == 1 and _are_of(tensors, computing_dtype(tensors[0].dtype), tensors[0].device):
            result = UniformStates(ready)
            result.dtype, result.device = tensors[0].dtype, tensors[0].device
            return result
        return states if all(map(is_, ready, states)) else ready

    def _update(
        self, lr: float, dtype: torch.dtype, tensors: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> list[State]:
        """One update in `dtype`; what is kept in another one is rounded back to it once."""
        rounded: dict[int, tuple[Tensor, Tensor]] = {}  # by the wide one, its original beside it

        def widened(value: Tensor, device: torch.device) -> Tensor:
            value = value.to(device)
            if not value.is_floating_point() or value.dtype == dtype:
                return value
            wide = value.to(dtype)
            rounded[id(wide)] = wide, value
            return wide

        def narrowed(value: Tensor) -> Tensor:
            if id(value) not in rounded:
                return value
            wide, original = rounded[id(value)]
            return original.copy_(wide)

        # The formula in float32 and one rounding at the end: rounded after each of its operations, halves lose small
        # updates.
        wide = [tensor.detach().to(dtype) for tensor in tensors]
        ready: list[Any] = [
            self.first(values) if state is None else map_tensors(state, lambda it, to=values: widened(it, to.device))
            for values, state in zip(wide, states, strict=True)
        ]
        self.update(lr, in_place_of(wide, tensors), [grad.to(dtype) for grad in grads], ready)
        for tensor, values in zip(tensors, wide, strict=True):
            if values.dtype != tensor.dtype:
                tensor.copy_(values)
        return [map_tensors(state, narrowed) for state in ready] if rounded else ready


class ForeachRule(ForeachOptimizer[State], Generic[Config, State]):
    """Base of the built-in ones, each of which is made of its config."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def check_parameter(self, path: str, tensor: Tensor) -> None:
        if self.exchanges:
            for placement in getattr(tensor, "placements", ()):
                divided_dim(placement)


def advanced_roots(
    squares: list[Tensor], grads: list[Tensor], beta: float, times: list[int], epsilon: float
) -> list[Tensor]:
    """The roots of the mean squares after those of `grads`, without the bias of a mean that began at 0, + epsilon."""
    foreach.mul_(squares, beta)
    foreach.addcmul_(squares, grads, grads, value=1 - beta)
    roots = list(foreach.sqrt(squares))
    foreach.div_(roots, [(1 - beta**time) ** 0.5 for time in times])
    foreach.add_(roots, epsilon)
    return roots


def _are_of(tensors: Sequence[Tensor], dtype: torch.dtype, device: torch.device) -> bool:
    return all(tensor.dtype == dtype and tensor.device == device for tensor in tensors)
