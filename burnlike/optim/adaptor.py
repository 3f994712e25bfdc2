"""OptimizerAdaptor: a SimpleOptimizer for whole modules, its states kept by ParamId."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ..errors import RecordMismatchError, ShapeError
from ..module import Param, ParamId
from ..record import Record
from .clipping import clip
from .clipping_config import GradientClipping
from .gradients import GradientsParams
from .simple_optimizer import SimpleOptimizer
from .state import flatten, to_device, unflatten

State = TypeVar("State")
Module = TypeVar("Module", bound=nn.Module)


class OptimizerAdaptor(Generic[State]):
    """Applies an update rule to every parameter that has a gradient.

    State follows a parameter by its ParamId: through reordering and renaming of layers, freezing, replacement of the
    tensor, and saving. A parameter without gradient is left as it is: no decay, no state, no count of time.
    """

    def __init__(self, optimizer: SimpleOptimizer[State], grad_clipping: GradientClipping | None = None) -> None:
        self.optimizer = optimizer
        self.grad_clipping = grad_clipping
        self._states: dict[ParamId, State] = {}
        self._paths: dict[ParamId, str] = {}
        self._devices: list[torch.device] = []

    @torch.no_grad()
    def step(self, lr: float, module: Module, grads: GradientsParams) -> Module:
        """Update `module` in place with the gradients and return it.

        Args:
            lr: learning rate.
            module: the module that the gradients were taken from.
            grads: consumed in Burn; here they may be used again.

        Raises:
            ShapeError: a gradient has not the shape of its parameter; nothing was changed.
        """
        found = list(grads)
        tensors = [param.tensor for param, _ in found]
        for (param, grad), tensor in zip(found, tensors, strict=True):
            if grad.shape != tensor.shape:
                raise _shape_error(param, tensor, grad)
        values = [grad for _, grad in found]
        if self.grad_clipping is not None:
            values = clip(self.grad_clipping, values)
        states = self._states
        before = [states.get(param.id) for param, _ in found]
        devices = [tensor.device for tensor in tensors]
        if devices != self._devices:  # the module was moved, or states were loaded
            before = [
                state if state is None else to_device(state, device)
                for state, device in zip(before, devices, strict=True)
            ]
            self._devices = devices
        after = self.optimizer.step_many(lr, tensors, values, before)
        for (param, _), state in zip(found, after, strict=True):
            states[param.id] = state
            self._paths[param.id] = param.path
        return module

    def to_record(self) -> Record:
        """All states, copying nothing: `<id>.<field>` tensors and values, and the path of each id."""
        tensors: dict[str, Tensor] = {}
        values: dict[str, Any] = {}
        for param_id, state in self._states.items():
            for name, leaf in flatten(state):
                (tensors if isinstance(leaf, Tensor) else values)[f"{param_id}.{name}"] = leaf
        paths = {str(param_id): path for param_id, path in self._paths.items()}
        return Record(tensors=tensors, values={"states": values, "paths": paths})

    def load_record(self, record: Record) -> "OptimizerAdaptor[State]":
        """Replace all states by those of `record`, each tensor in the dtype it was saved in; returns the optimizer.

        Raises:
            RecordMismatchError: the record is not one of this kind of optimizer; the states are as before.
        """
        leaves_of = _leaves_by_id(record)
        self._states = {
            param_id: unflatten(self.optimizer.state_type, leaves) for param_id, leaves in leaves_of.items()
        }
        self._devices = []
        self._paths = {ParamId.parse(text): path for text, path in record.values.get("paths", {}).items()}
        return self


def _leaves_by_id(record: Record) -> dict[ParamId, dict[str, Any]]:
    values = record.values.get("states")
    if not isinstance(values, Mapping):
        raise RecordMismatchError("expected an optimizer's record, got one without optimizer states")
    leaves_of: dict[ParamId, dict[str, Any]] = {}
    for name, leaf in (*record.tensors.items(), *values.items()):
        text, _, field = name.partition(".")
        try:
            param_id = ParamId.parse(text)
        except ValueError as error:
            raise RecordMismatchError(
                f"expected names '<ParamId>.<field>' in an optimizer's record, got '{name}'"
            ) from error
        leaves_of.setdefault(param_id, {})[field] = leaf
    return leaves_of


def _shape_error(param: Param, tensor: Tensor, grad: Tensor) -> ShapeError:
    return ShapeError(
        f"the gradient of '{param.path}' has shape {list(grad.shape)}, expected {list(tensor.shape)}; "
        "take gradients anew after a parameter was replaced"
    )
