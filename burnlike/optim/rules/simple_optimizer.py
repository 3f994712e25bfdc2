"""SimpleOptimizer: one formula for one tensor. The adaptor does everything else."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import UnionType
from typing import Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

import torch
from torch import Tensor as TorchTensor

from ...backend import Backend, backend_for
from ...errors import ArgumentError, ConfigError, RecordError, ShapeError, TensorTypeError
from ...module.torch_objects.wrappers import storage_of
from ...ops import StepOptions
from ...record.pytree import field_hints, stripped, to_leaves, type_name
from ...tensor import Tensor
from ...tensor.core.base import TensorBase
from ..core.gradient_transform import PLAIN, finish, is_skipped, transformed_wide
from ..core.state import inner_of, map_fields, map_tensors

State = TypeVar("State")
B = TypeVar("B", bound=Backend)
D = TypeVar("D", bound=int)


class SimpleOptimizer(ABC, Generic[State]):
    """An update rule. Its state is a dataclass of tensors, numbers, None and further such dataclasses, lists and maps.

    A rule of your own is a state and a `step`; see docs/optimizers.md.

    Attributes:
        state_type: the dataclass, from which saved states are rebuilt; by default there is no state. `step` gets typed
            tensors in the fields that are declared so, and torch's tensors, as they are, in all others.
        elementwise: whether a value of the result depends on the same place of tensor, gradient and state only. If not,
            the rule is given whole tensors under `fully_shard`, unless it `exchanges`.
        exchanges: whether `step_many` takes `Parts`, too, and exchanges what the formula needs of other ranks.
        fused: whether `step_many` refuses wrong arguments before it writes, follows all of its options in the pass
            that updates, and `take_back` exists.
    """

    state_type: ClassVar[type] = type(None)
    elementwise: ClassVar[bool] = True
    exchanges: ClassVar[bool] = False
    fused: ClassVar[bool] = False

    @property
    def takes_parts(self) -> bool:
        """True if each rank steps its part of a parameter under `fully_shard`, and keeps that part of the state."""
        return self.elementwise or self.exchanges

    def state_shape(self, field: str, shape: torch.Size) -> torch.Size | None:
        """The shape that the tensor `field`, a dotted name, of a loaded state must have; None allows any.

        That is `shape`, of the parameter, where the state's dataclass declares a typed tensor; override it for others.
        Nothing is asked about tensors without dimensions.
        """
        return shape if _declares(self.state_type, field, TensorBase) else None

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
        if not tensors:
            return updated
        # Asked once, not for each tensor: a step of small ones takes as long as the calls around the formula.
        device = tensors[0].device  # of all
        typed = partial(_typed, backend=self.backend_for(device), device=device)

        def as_declared(field: str, value: TorchTensor) -> Any:
            return typed(value) if _declares(self.state_type, field, TensorBase) else value.to(device)

        for tensor, grad, state in zip(tensors, grads, states, strict=True):
            # All results are made before a tensor is written: a step that raises leaves every parameter as it was.
            before = None if state is None else map_fields(state, as_declared)
            result: Any = self.step(lr, typed(tensor), typed(grad.to(tensor.dtype)), before)
            values, next_state = self._checked_result(result, tensor)
            news.append(values.inner.view(tensor.shape))
            if next_state is not None:
                taken = (storage_of(tensor), storage_of(grad))
                next_state = map_fields(next_state, partial(self._kept, like=tensor, taken=taken))
                # Only the first state of a parameter: later ones come from the same code, and looking takes time in
                # each step.
                if state is None:
                    self._check_first_state(next_state, tensor.shape, typed)
            updated.append(next_state)
        for tensor, values in zip(tensors, news, strict=True):
            tensor.copy_(values)
        return updated

    def _kept(self, field: str, value: Any, like: TorchTensor, taken: tuple[int, int]) -> TorchTensor:
        """torch's tensor of a state; that of a parameter without dimensions without dimensions again."""
        is_typed = isinstance(value, TensorBase)
        if is_typed and not any(_declares(self.state_type, field, it) for it in (TensorBase, TorchTensor)):
            raise ConfigError(
                f"{type(self).__name__}.step gave a state whose '{field}' is a typed Tensor, which"
                f" {type_name(self.state_type)} does not declare: the next step would get torch's tensor. Declare the"
                " field as a Tensor[B, D], or put x.inner into it"
            )
        inner = inner_of(value)
        if storage_of(inner) in taken:  # of the parameter, which is written now, or of a gradient, which may be zeroed
            inner = inner.clone()
        return inner.view(()) if is_typed and like.dim() == 0 and inner.shape == (1,) else inner

    def _checked_result(self, result: Any, tensor: TorchTensor) -> tuple[Tensor[Any, Any], Any]:
        """The new values and the new state that `step` gave, or the error that says what it gave instead."""
        name = type(self).__name__
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], TensorBase):
            got = [type(it).__name__ for it in result] if isinstance(result, tuple) else type(result).__name__
            raise ArgumentError(
                f"{name}.step gave {got}, expected the pair (new values as a Tensor, new state or None), as in"
                " `return tensor - grad * lr, state`"
            )
        values, state = result
        if values.inner.shape != (tensor.shape or (1,)):
            raise ShapeError(
                f"{name}.step gave values of shape {list(values.inner.shape)}, expected {list(tensor.shape)}, the shape"
                " of the parameter"
            )
        if state is not None and not isinstance(state, get_origin(self.state_type) or self.state_type):
            raise ConfigError(
                f"{name}.step gave a {type(state).__name__} as the state, and {name}.state_type is"
                f" {type_name(self.state_type)}; write `state_type = {type(state).__name__}` in the class {name}, or"
                " give the state that it names"
            )
        return values, state

    def _check_first_state(self, state: State | None, shape: torch.Size, typed: Any) -> None:
        """Refuse what no later step would get as it is, and no record holds."""
        place = f"{type(self).__name__}.step gave a state"
        try:
            leaves = to_leaves(state)[0]
        except RecordError as error:
            raise ConfigError(f"{place} that can't be saved: {error}") from error
        for field, value in leaves.items():
            if value.layout is not torch.strided or value.is_quantized or value.is_nested:
                raise ConfigError(
                    f"{place} whose '{field}' is a sparse, quantized or nested tensor, which no record holds; keep"
                    " .to_dense(), .dequantize() or the tensors that it is made of"
                )
            if value.dtype in (torch.complex128, torch.complex32):
                raise ConfigError(
                    f"{place} whose '{field}' is {value.dtype}, which no record holds; keep torch.view_as_real(x)"
                )
            if not _declares(self.state_type, field, TensorBase):
                continue
            try:
                typed(value)
            except TensorTypeError as error:
                raise ConfigError(
                    f"{place} whose '{field}' is declared as a typed tensor and can't be one ({error}); declare it as"
                    " torch.Tensor"
                ) from error
            wanted = self.state_shape(field, shape)
            if wanted is not None and value.dim() and value.shape != wanted:
                raise ShapeError(
                    f"{place} whose '{field}' has shape {list(value.shape)}, expected {list(wanted)}: a typed tensor of"
                    " a state has the parameter's shape. Declare it as torch.Tensor, or override state_shape"
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


# Asked for each field of each state in each step.
@cache
def _declares(state_type: Any, field: str, kind: type) -> bool:
    """True if a state of `state_type` has a tensor of the class `kind` at `field`, a dotted name."""
    return _is_declared(state_type, field.split("."), kind)


def _is_declared(hint: Any, names: Sequence[str], kind: type) -> bool:
    """True if what `hint` declares has a tensor of the class `kind` at the path `names`."""
    hint = stripped(hint)
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_declared(arg, names, kind) for arg in args)
    if not names or not isinstance(origin, type):
        return not names and isinstance(origin, type) and issubclass(origin, kind)
    hints = field_hints(origin)
    if hints is not None:
        return names[0] in hints and _is_declared(hints[names[0]], names[1:], kind)
    if not args:
        return False
    if issubclass(origin, Mapping):  # whose keys may have dots
        return any(_is_declared(args[1], names[place:], kind) for place in range(1, len(names) + 1))
    if origin is tuple and args[-1:] != (...,):
        return names[0].isdigit() and int(names[0]) < len(args) and _is_declared(args[int(names[0])], names[1:], kind)
    return _is_declared(args[0], names[1:], kind)


def _typed(tensor: TorchTensor, backend: Backend, device: torch.device) -> Any:
    plain = tensor.detach().to(device)  # a typed parameter would be tracked, a gradient not
    return Tensor(plain if plain.dim() else plain.view(1), backend)
