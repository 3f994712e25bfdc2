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
from ..core.gradient_transform import PLAIN, finish, is_skipped, transformed_wide
from ..core.state import inner_of, map_tensors

State = TypeVar("State")
B = TypeVar("B", bound=Backend)
D = TypeVar("D", bound=int)


class SimpleOptimizer(ABC, Generic[State]):
    """An update rule. Its state is a dataclass of tensors, numbers, None and further such dataclasses, lists and maps.

    A rule of your own is a state and a `step`; see docs/optimizers.md.

    Attributes:
        state_type: the dataclass, from which saved states are rebuilt.
        elementwise: whether a value of the result depends on the same place of tensor, gradient and state only. If not,
            the rule is given whole tensors under `fully_shard`, unless it `exchanges`.
        exchanges: whether `step_many` takes `Parts`, too, and exchanges what the formula needs of other ranks.
        fused: whether `step_many` refuses wrong arguments before it writes, follows all of its options in the pass
            that updates, and `take_back` exists.
    """

    state_type: ClassVar[type]
    elementwise: ClassVar[bool] = True
    exchanges: ClassVar[bool] = False
    fused: ClassVar[bool] = False

    @property
    def takes_parts(self) -> bool:
        """Whether each rank steps its part of a parameter under `fully_shard`, and keeps that part of the state."""
        return self.elementwise or self.exchanges

    def state_shape(self, field: str, shape: torch.Size) -> torch.Size | None:
        """The shape that the tensor `field`, a dotted name, of a loaded state must have; None allows any.

        That is `shape`, of the parameter, where the state's dataclass declares a typed tensor; override it for others.
        Nothing is asked about tensors without dimensions.
        """
        return shape if _is_typed(self.state_type, field.split(".")) else None

    def check_parameter(self, path: str, tensor: TorchTensor) -> None:
        """Raise an error if this rule can't update `tensor`, under `fully_shard` a DTensor."""

    def check_states(self, states: Sequence[State | None]) -> None:
        """Raise an error if no step may start from one of these states, before anything is changed."""

    def backend_for(self, device: torch.device) -> Backend:
        """The backend of the tensors that `step` gets, or BackendError; override it for a device with your own."""
        return backend_for(device)

    def put_eval_weights(self, tensor: TorchTensor, state: State) -> bool:
        """Put the weights to evaluate with into a parameter, where they are others; whether anything has changed.

        What was there goes into the state as it is, for `put_training_weights`; see `Optimizer.use_eval_weights`.
        """
        return False

    def put_training_weights(self, tensor: TorchTensor, state: State) -> bool:
        """Put the weights to train with back into a parameter, bit for bit; see `put_eval_weights`."""
        return False

    @abstractmethod
    def step(
        self, lr: float, tensor: Tensor[B, D], grad: Tensor[B, D], state: State | None
    ) -> tuple[Tensor[B, D], State | None]:
        """Compute one update: the new values, in the dtype of `tensor`, and the new state. Nothing handed in changes.

        `tensor` and `grad` are of rank 1 where the parameter has no dimension. `state` is None at the first step.
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

        Tensors are on one device, gradients fit them; states on another device are moved. `options` is what is done
        beside the formula. It gives the new states, or `states` itself when those objects were updated; ShapeError if
        `step` gave values of another shape, or a first state that no load would take: then no tensor has changed.
        """
        if is_skipped(options):
            finish(tensors, grads, options, written=False)
            return states
        updated = self._step_with(lr, tensors, transformed_wide(grads, options), states)
        finish(tensors, grads, options)
        return updated

    def _step_with(
        self, lr: float, tensors: Sequence[TorchTensor], grads: list[TorchTensor], states: Sequence[State | None]
    ) -> Sequence[State | None]:
        """As `step_many`, with gradients on which its options were used, of half precision perhaps in float32."""
        updated: list[State | None] = []
        news: list[TorchTensor] = []
        for tensor, grad, state in zip(tensors, grads, states, strict=True):
            typed = partial(_typed, backend=self.backend_for(tensor.device), device=tensor.device)
            values, next_state = self.step(lr, typed(tensor), typed(grad.to(tensor.dtype)), map_tensors(state, typed))
            if values.inner.shape != (tensor.shape or (1,)):
                raise ShapeError(
                    f"{type(self).__name__}.step gave values of shape {list(values.inner.shape)}, expected"
                    f" {list(tensor.shape)}, the shape of the parameter"
                )
            news.append(values.inner.view(tensor.shape))
            updated.append(map_tensors(next_state, partial(_plain, like=tensor)))
            if state is None and updated[-1] is not None:
                self._check_first_state(updated[-1], tensor.shape)
        for tensor, values in zip(tensors, news, strict=True):
            tensor.copy_(values)
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


def _plain(value: Any, like: TorchTensor) -> TorchTensor:
    """torch's tensor of a state; that of a parameter without dimensions without dimensions again."""
    inner = inner_of(value)
    return inner.view(()) if like.dim() == 0 and inner.shape == (1,) else inner
