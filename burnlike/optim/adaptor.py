"""OptimizerAdaptor: a SimpleOptimizer for whole modules, its states kept by ParamId."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from ..errors import RecordMismatchError
from ..module import Param, ParamId
from ..module.wrappers import is_distributed
from ..record import Record
from .clipping import clip
from .clipping_config import GradientClipping
from .gradients import GradientsParams
from .sharded import local, local_state
from .simple_optimizer import SimpleOptimizer
from .state import flatten, unflatten

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
        # The parameters and states of the last step, in one order: while they stay the same, a step looks nothing up.
        self._last: tuple[Sequence[Param] | None, Sequence[State | None]] = (None, ())
        self._sharded = False

    @torch.no_grad()
    def step(self, lr: float, module: Module, grads: GradientsParams) -> Module:
        """Update `module` in place with the gradients and return it; under `fully_shard`, this rank's parts.

        Args:
            lr: learning rate.
            module: the module that the gradients were taken from.
            grads: consumed in Burn; here they may be used again.
        """
        params, values = grads.params, grads.values
        if self.grad_clipping is not None:
            values = clip(self.grad_clipping, values)
        last_params, before = self._last
        known = last_params is params
        tensors = [param.tensor for param in params]
        if not known:
            self._sharded = any(map(is_distributed, tensors))
            before = [self._states.get(param.id) for param in params]
            if self._sharded:
                before = [local_state(state, it) for state, it in zip(before, tensors, strict=True)]
        if self._sharded:
            tensors, values = list(map(local, tensors)), list(map(local, values))
        after = self.optimizer.step_many(lr, tensors, values, before)
        if not known or after is not before:
            self._states.update(zip((param.id for param in params), after, strict=True))
            self._paths.update((param.id, param.path) for param in params)
            self._last = (params, after)
        return module

    def to_record(self) -> Record:
        """All states, copying nothing: `<id>.<field>` tensors and values, and the path of each id.

        Under `fully_shard` they are this rank's parts.
        """
        tensors: dict[str, Tensor] = {}
        values: dict[str, Any] = {}
        for param_id, state in self._states.items():
            for name, leaf in flatten(state):
                if isinstance(leaf, Tensor):
                    tensors[f"{param_id}.{name}"] = leaf
                else:
                    values[f"{param_id}.{name}"] = leaf
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
        self._last = (None, ())
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
