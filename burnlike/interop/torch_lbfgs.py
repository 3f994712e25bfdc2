"""TorchLbfgs: L-BFGS behind torch's interface."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from .._torch_compat.optimizers import after_pre_hooks, run_post_hooks
from ..errors import ArgumentError, ConfigError, RecordMismatchError
from ..module.tree.walk import weights
from ..optim import Lbfgs, LbfgsConfig
from ..optim.schedules.learning_rates import checked_rate
from ..optim.states.torch_records import read_torch_record, torch_record, trained_by
from ..record import Record
from ..record.methods import RecordMethods

_SOURCE = "the state dict"


class TorchLbfgs(RecordMethods, torch.optim.Optimizer):
    """`Lbfgs` where code expects a `torch.optim.LBFGS`: `step(closure)`, schedulers, hooks, state dicts.

    There is one group, of all parameters of the module: they are one vector. `state_dict` has the whole state under the
    first of them, as torch's, and `load_state_dict` refuses one whose parameters are others or in another order.

    Example:
        >>> layer, x = nn.Linear(1, 1), torch.tensor([[1.0], [2.0]])
        >>> optimizer = TorchLbfgs(layer, LbfgsConfig(line_search_fn="StrongWolfe"), lr=1.0)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (layer(x) - x).square().sum()
        ...     loss.backward()
        ...     return loss
        >>> for _ in range(3):
        ...     loss = optimizer.step(closure)
        >>> loss.item() < 1e-3
        True
    """

    def __init__(self, module: nn.Module, config: LbfgsConfig, lr: float = 1.0, params: None = None) -> None:
        """Make the optimizer of `module`.

        Args:
            module: what is trained.
            config: see `LbfgsConfig`.
            lr: see `Lbfgs.step`.
            params: None, which is all: a part of them can't be trained.

        Raises:
            ArgumentError: the rate is negative or not finite, or the module has no parameters.
            ConfigError: `params` is not None.
        """
        checked_rate(lr)
        if params is not None:
            raise ConfigError("TorchLbfgs: params: all parameters are one vector; freeze those that are not to change")
        found = weights(module)
        if not found:
            raise ArgumentError(f"TorchLbfgs: {type(module).__name__} has no parameters to train")
        self._module = module
        self._lbfgs = config.init()
        super().__init__([(param.path, param.tensor) for param in found], {"lr": lr})
        self.param_groups[0]["param_ids"] = [str(param.id) for param in found]

    @property
    def optimizer(self) -> Lbfgs:
        """The optimizer that steps and keeps the state, for records."""
        return self._lbfgs

    @torch.optim.Optimizer.profile_hook_step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Up to `max_iter` iterations.

        Args:
            closure: computes the loss and its gradients; called several times.

        Returns:
            What its first call returned.

        Raises:
            ArgumentError: there is no closure; and see `Lbfgs.step`.
        """
        if closure is None:
            raise ArgumentError("TorchLbfgs: step() needs a closure that computes the loss and its gradients")
        with torch.enable_grad():
            return self._lbfgs.step_closure(float(self.param_groups[0]["lr"]), self._module, closure)

    step.hooked = True  # pyright: ignore[reportFunctionMemberAccess] - or torch would put the hooks around it again

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch, there is one group.

        Raises:
            ConfigError: it is not the first one.
        """
        if self.param_groups:
            raise ConfigError("TorchLbfgs: all parameters are one vector; make a new optimizer for another set of them")
        super().add_param_group(param_group)

    def into_record(self) -> Record:
        """The state and the options of the group; copies nothing."""
        return torch_record(self, self._module)

    def load_record(self, record: Record) -> Self:
        """Replace the state, and the options where the record has them; returns the optimizer.

        Args:
            record: what `into_record` gave, here or of an Lbfgs, which has no options.

        Raises:
            RecordMismatchError: it does not fit; nothing has changed.
        """
        record = Record.of(record)
        if record.values.get("optimizer") == type(self).__name__:
            read_torch_record(self, record, trained_by(self, [self._module])).apply(self)
        else:
            self._lbfgs.load_record(record, self._module)
        return self

    def state_dict(self) -> dict[str, Any]:
        """The state and the group in torch's layout; copies nothing."""
        found = super().state_dict()
        record = self._lbfgs.into_record()
        group = {name: [*it] if isinstance(it, list) else it for name, it in found["param_groups"][0].items()}
        return {**found, "state": {0: {**record.tensors, **record.values}}, "param_groups": [group]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Replace the state and the rate by those of `state_dict`, which this class gave.

        Raises:
            RecordMismatchError: it is of another optimizer or of other parameters; nothing has changed.
            ArgumentError: its rate is none; likewise.
        """
        given = after_pre_hooks(self, state_dict)
        fields, group = _parts(given)
        self._check_same_parameters(group)
        checked_rate(group.get("lr", 0.0))
        tensors = {name: it.detach().clone() for name, it in fields.items() if isinstance(it, Tensor)}
        values = {name: it for name, it in fields.items() if name not in tensors}
        self._lbfgs.load_record(Record(tensors=tensors, values=values, source=_SOURCE), self._module)
        kept = ("params", "param_names", "param_ids")
        self.param_groups[0].update({name: copy.deepcopy(it) for name, it in group.items() if name not in kept})
        run_post_hooks(self)

    def _check_same_parameters(self, group: Mapping[str, Any]) -> None:
        own = self.param_groups[0]
        if group.get("param_ids") != own["param_ids"] and group.get("param_names") != own["param_names"]:
            raise RecordMismatchError(
                f"{_SOURCE} has neither the ids nor the names of this module's parameters in their order: the state of"
                " L-BFGS is one vector, which fits no other order. The optimizer is as it was"
            )

    def __getstate__(self) -> dict[str, Any]:
        """The content of copies and pickles, the module included; without hooks, as in torch."""
        return {name: self.__dict__[name] for name in ("defaults", "param_groups", "_module", "_lbfgs", "state")}


def _parts(state_dict: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The fields of the state, and the group."""
    states = state_dict.get("state") if isinstance(state_dict, Mapping) else None
    groups = state_dict.get("param_groups") if isinstance(state_dict, Mapping) else None
    fits = isinstance(states, Mapping) and [*states] == [0] and isinstance(states[0], Mapping)
    if not fits or not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], Mapping):
        raise RecordMismatchError(
            f"expected the state dict of a TorchLbfgs, with one group and one state, got {state_dict!r:.80}"
        )
    return states[0], groups[0]  # pyright: ignore[reportOptionalSubscript]
