"""SimpleOptimizer: one formula for one tensor. The adaptor does everything else."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from .state import map_tensors

State = TypeVar("State")


class SimpleOptimizer(ABC, Generic[State]):
    """An update rule. Its state is a dataclass of tensors, numbers, None and further such dataclasses, lists and maps.

    Attributes:
        state_type: the dataclass, from which saved states are rebuilt.
    """

    state_type: ClassVar[type]

    def state_shape(self, field: str, shape: torch.Size) -> torch.Size | None:
        """The shape that a loaded state's tensor must have; override it for states of other shapes.

        Args:
            field: dotted name in the state.
            shape: of the parameter.

        Returns:
            That of the parameter, as rules that go element by element have it; None allows any. Nothing is asked about
            tensors without dimensions.
        """
        return shape

    @abstractmethod
    def step(self, lr: float, tensor: Tensor, grad: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Compute one update without changing an argument.

        Args:
            lr: learning rate.
            tensor: the parameter's values.
            grad: its gradient, of the same shape.
            state: what the last step returned, or None at the first.

        Returns:
            The new values, in the dtype of `tensor`, and the new state.
        """

    def step_many(
        self, lr: float, tensors: Sequence[Tensor], grads: Sequence[Tensor], states: Sequence[State | None]
    ) -> Sequence[State]:
        """Update many tensors in place, with the result of `step`; one with a kernel for all of them overrides it.

        States on another device than their tensor are moved to it. Returns the new states, or `states` itself when
        those objects were updated.
        """
        updated = []
        for tensor, grad, state in zip(tensors, grads, states, strict=True):
            placed = None if state is None else map_tensors(state, lambda value, to=tensor: value.to(to.device))
            values, next_state = self.step(lr, tensor, grad.to(tensor.device), placed)
            tensor.copy_(values)
            updated.append(next_state)
        return updated
