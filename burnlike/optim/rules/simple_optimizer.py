"""SimpleOptimizer: one formula for one tensor. The adaptor does everything else."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from types import UnionType
from typing import Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

import torch
from torch import Tensor as TorchTensor

from ...backend import Backend, backend_for
from ...errors import ShapeError
from ...ops import StepOptions
from ...record.pytree.flatten import to_leaves
from ...record.pytree.type_layout import field_hints, stripped
from ...tensor import Tensor
from ...tensor.core.base import TensorBase
from ..core.gradient_transform import PLAIN, finish, is_skipped, transformed
from ..core.state import inner_of, map_tensors

State = TypeVar("State")
B = TypeVar("B", bound=Backend)
D = TypeVar("D", bound=int)


class SimpleOptimizer(ABC, Generic[State]):
    """An update rule. Its state is a dataclass of tensors, numbers, None and further such dataclasses, lists and maps.

    A rule of your own is a state and a `step`; see docs/optimizers.md.

    Attributes:
        state_type: the dataclass, from which saved states are rebuilt.
        elementwise: whether a value of the result depends on the same place of tensor, gradient and state only. A rule
            that looks at the whole tensor says False: it is then given whole ones under `fully_shard`.
        fused: whether `step_many` refuses wrong arguments before it writes, follows all of its options in the pass
            that updates, and `take_back` exists.
    """

    state_type: ClassVar[type]
    elementwise: ClassVar[bool] = True
    fused: ClassVar[bool] = False

    def state_shape(self, field: str, shape: torch.Size) -> torch.Size | None:
        """The shape that a loaded state's tensor must have; override it for states of other shapes.

        Args:
            field: dotted name in the state.
            shape: of the parameter.

        Returns:
            That of the parameter where the state's dataclass declares a typed tensor, which has the parameter's rank;
            None, which allows any, for everything else. Nothing is asked about tensors without dimensions.
        """
        return shape if _is_typed(self.state_type, field.split(".")) else None

    def check_parameter(self, path: str, tensor: TorchTensor) -> None:
        """Raise an error if this rule can't update such a parameter; override it for rules that take only some.

        Args:
            path: of the parameter, for the message.
            tensor: the parameter; under `fully_shard` a DTensor.
        """

    def check_states(self, states: Sequence[State | None]) -> None:
        """Raise an error if no step may start from one of these states, before anything is changed."""

    def backend_for(self, device: torch.device) -> Backend:
        """The backend of the typed tensors that `step` gets; override it for a device whose backend is your own.

        Raises:
            BackendError: there is none for devices of this type.
        """
        return backend_for(device)

    def put_eval_weights(self, tensor: TorchTensor, state: State) -> bool:
        """Put the weights to evaluate with into a parameter, for rules where they are others than those to train with.

        What was there goes into the state as it is, for `put_training_weights`; see `Optimizer.use_eval_weights`.

        Args:
            tensor: the parameter's values.
            state: the parameter's.

        Returns:
            Whether anything has changed.
        """
        return False

    def put_training_weights(self, tensor: TorchTensor, state: State) -> bool:
        """Put the weights to train with back into a parameter, bit for bit; see `put_eval_weights`."""
        return False

    @abstractmethod
    def step(
        self, lr: float, tensor: Tensor[B, D], grad: Tensor[B, D], state: State | None
    ) -> tuple[Tensor[B, D], State | None]:
        """Compute one update. Nothing that is handed in changes.

        Args:
            lr: learning rate.
            tensor: the parameter's values; of rank 1 where the parameter has no dimension.
            grad: its gradient, of the same shape.
            state: what the last step returned, or None at the first.

        Returns:
            The new values, in the dtype of `tensor`, and the new state, if there is one.
        """

    @torch.no_grad()
    def step_many(
        self,
        lr: float,
        tensors: Sequence[TorchTensor],
        grads: Sequence[TorchTensor],
        states: Sequence[State | None],
        options: StepOptions = PLAIN,
    ) -> Sequence[State | None]:
        """Update many tensors in place, with the result of `step`; a rule that does all of them at once overrides it.

        Args:
            lr: learning rate.
            tensors: values of parameters, on one device.
            grads: a gradient for each, of its shape and dtype and on its device.
            states: a state for each, or None; those on another device are moved to that of their tensor.
            options: what is done beside the formula.

        Returns:
            The new states, or `states` itself when those objects were updated.

        Raises:
            ShapeError: `step` gave values of another shape, or a first state that no load would take; none of these
                tensors has changed.
        """
        if is_skipped(options):
            finish(tensors, grads, options, written=False)
            return states
        updated: list[State | None] = []
        news: list[TorchTensor] = []
        for tensor, grad, state in zip(tensors, transformed(grads, options), states, strict=True):
            typed = partial(_typed, backend=self.backend_for(tensor.device), device=tensor.device)
            values, next_state = self.step(lr, typed(tensor), typed(grad), map_tensors(state, typed))
            if values.inner.shape != (tensor.shape or (1,)):
                raise ShapeError(
                    f"{type(self).__name__}.step gave values of shape {list(values.inner.shape)}, expected"
                    f" {list(tensor.shape)}, the shape of the parameter"
                )
            news.append(values.inner.view(tensor.shape))
            updated.append(_torch_state(next_state, tensor))
            if state is None and updated[-1] is not None:
                self._check_first_state(updated[-1], tensor.shape)
        for tensor, values in zip(tensors, news, strict=True):
            tensor.copy_(values)
        finish(tensors, grads, options)
        return updated

    def _check_first_state(self, state: State | None, shape: torch.Size) -> None:
        for field, value in to_leaves(state)[0].items():
            wanted = self.state_shape(field, shape)
            if wanted is not None and value.dim() and value.shape != wanted:
                raise ShapeError(
                    f"{type(self).__name__}.step gave a state whose '{field}' has shape {list(value.shape)}, expected"
                    f" {list(wanted)}: a typed tensor of a state has the parameter's shape. Declare it as torch.Tensor,"
                    " or override state_shape"
                )

    def take_back(self, states: Sequence[State], steps: int) -> None:
        """Let steps that changed nothing, as found out later, not have counted; for rules that are `fused`."""


class ListOptimizer(SimpleOptimizer[State]):
    """Base of the built-in rules, whose `step_many` computes on torch's tensors; `step` is one step of copies."""

    def step(
        self, lr: float, tensor: Tensor[B, D], grad: Tensor[B, D], state: State | None
    ) -> tuple[Tensor[B, D], State | None]:
        values = tensor.inner.detach().clone()
        copied = map_tensors(state, lambda it: inner_of(it).clone())
        (after,) = self.step_many(lr, [values], [grad.inner], [copied])
        return Tensor(values, tensor.backend), after


def _is_typed(hint: Any, names: Sequence[str]) -> bool:
    """Whether what `hint` declares has a typed tensor at the path `names`."""
    hint = stripped(hint)
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_typed(arg, names) for arg in args)
    if not names or not isinstance(origin, type):
        return not names and isinstance(origin, type) and issubclass(origin, TensorBase)
    hints = field_hints(origin)
    if hints is None:
        return bool(args) and _is_typed(args[1 if issubclass(origin, Mapping) else 0], names[1:])
    return names[0] in hints and _is_typed(hints[names[0]], names[1:])


def _typed(tensor: TorchTensor, backend: Backend, device: torch.device) -> Any:
    plain = tensor.detach().to(device)  # a typed parameter would be tracked, a gradient not
    return Tensor(plain if plain.dim() else plain.view(1), backend)


def _torch_state(state: Any, tensor: TorchTensor) -> Any:
    """The state with torch's tensors, those of a parameter without dimensions without dimensions again."""

    def plain(value: Any) -> TorchTensor:
        inner = inner_of(value)
        return inner.view(()) if tensor.dim() == 0 and inner.shape == (1,) else inner

    return map_tensors(state, plain)
