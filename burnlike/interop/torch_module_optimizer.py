"""Optimizers that step a whole module, behind torch's interface: L-BFGS, and an `Optimizer` of one's own."""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from .._torch_compat.optimizers import after_pre_hooks, run_post_hooks
from ..errors import ArgumentError, ConfigError, RecordMismatchError
from ..module.tree.walk import weights
from ..optim import GradientsParams, Lbfgs, LbfgsConfig, ModuleLearningRate, OptimizerAdaptor
from ..optim.lbfgs.state import FlatParameters
from ..optim.schedules.learning_rates import checked_rate
from ..optim.states.matching import GROUPS, noted_layouts
from ..optim.states.torch_records import read_torch_record, torch_record, trained_by
from ..record import Record
from ..record.layout import LAYOUTS
from ..record.methods import RecordMethods

_SOURCE = "the state dict"


class TorchModuleOptimizer(RecordMethods, torch.optim.Optimizer):
    """An `Optimizer` that steps a whole module, where code expects one of `torch.optim`.

    There is one group, of all parameters of the module. `state_dict` has the optimizer's whole record under the first
    of them, and `load_state_dict` refuses one whose parameters are others or in another order.
    """

    def __init__(self, module: nn.Module, optimizer: Any, lr: float, params: None = None) -> None:
        """Make the optimizer of `module`.

        Args:
            module: what is trained; without parameters it is an ArgumentError.
            optimizer: an `Optimizer`, which steps and keeps the state; it belongs to this object from now on.
            lr: learning rate, from 0 on and finite.
            params: None, which is all: the optimizer steps the module as a whole.
        """
        checked_rate(lr)
        name = type(self).__name__
        if params is not None:
            raise ConfigError(
                f"{name}: params: all parameters are stepped together; freeze those that are not to change"
            )
        params_of_module = weights(module)
        if not params_of_module:
            raise ArgumentError(f"{name}: {type(module).__name__} has no parameters to train")
        self._module = module
        self._optimizer = optimizer
        super().__init__([(param.path, param.tensor) for param in params_of_module], {"lr": lr})
        self.param_groups[0]["param_ids"] = [str(param.id) for param in params_of_module]

    @property
    def optimizer(self) -> Any:
        """The optimizer that steps and keeps the state, for records."""
        return self._optimizer

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # Whether a GradScaler leaves gradients scaled, and what overflowed to be found, to the step.
        return isinstance(self._optimizer, OptimizerAdaptor)

    @torch.optim.Optimizer.profile_hook_step
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        closure: Callable[[], Any] | None = None,
        *,
        lr: float | ModuleLearningRate | None = None,
        divisor: float = 1.0,
    ) -> Any:
        """Update the module with the gradients of its parameters, which keep them.

        Args:
            closure: computes the loss, which is returned, and the gradients anew.
            lr: the learning rate of this step; None is that of the group.
            divisor: what an OptimizerAdaptor divides the gradients by.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        pairs = [(param, param.tensor.grad) for param in weights(self._module)]
        grads = GradientsParams.of([(param, grad) for param, grad in pairs if grad is not None])
        rate = float(self.param_groups[0]["lr"]) if lr is None else lr
        scaling: dict[str, Any] = {}
        if isinstance(self._optimizer, OptimizerAdaptor):
            scale = getattr(self, "grad_scale", None)  # which a GradScaler sets, as found_inf, before it calls the step
            if divisor != 1.0:
                scale = divisor if scale is None else scale * divisor
            scaling = {"loss_scale": scale, "found_inf": getattr(self, "found_inf", None)}
        with torch.no_grad():
            self._optimizer.step(rate, self._module, grads, **scaling)
        return loss

    step.hooked = True  # pyright: ignore[reportFunctionMemberAccess] - or torch would put the hooks around it again

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """A ConfigError but for the first group, which has all parameters."""
        if self.param_groups:
            raise ConfigError(
                f"{type(self).__name__}: all parameters are stepped together; make a new optimizer for another set"
            )
        super().add_param_group(param_group)

    def into_record(self) -> Record:
        """The state and the options of the group; copies nothing."""
        return torch_record(self, self._module)

    def load_record(self, record: Record) -> Self:
        """Replace the state, and the options where the record has them; returns the optimizer.

        The record is what `into_record` gave, here or of the optimizer itself, which has no options. One that does not
        fit is a RecordMismatchError, and nothing has changed.
        """
        record = Record.of(record)
        if record.values.get("optimizer") == type(self).__name__:
            loaded = read_torch_record(self, record, trained_by(self, [self._module]), [self._module])
            ids, paths = record.values[GROUPS][0]["params"], record.values["paths"]
            self._refuse_another_order(ids, [paths.get(it) for it in ids], record.source)
            loaded.apply(self)
        else:
            self._optimizer.load_record(record, self._module)
        return self

    def _layouts(self) -> str:
        """The layouts of the parameters, as a text, in which torch.distributed.checkpoint finds no parts."""
        notes = noted_layouts([self._module])
        return json.dumps([notes.get(text, {}).get("parts") for text in self.param_groups[0]["param_ids"]])

    def _refuse_another_order(self, ids: Any, names: Any, source: str) -> None:
        group = self.param_groups[0]
        is_permuted = ids is not None and {*ids} == {*group["param_ids"]}
        if ids != group["param_ids"] and (is_permuted or names != group["param_names"]):
            raise RecordMismatchError(
                f"{source} has neither the ids nor the names of this module's parameters in their order, and the state"
                f" of {type(self._optimizer).__name__} is one, which fits no other order. The optimizer is as it was"
            )

    def state_dict(self, *, form: Literal["burnlike", "torch"] = "burnlike") -> dict[str, Any]:
        """The state and the group in torch's layout; copies nothing.

        The `form` `torch` is a RecordMismatchError: it is of optimizers with a rule for each parameter.
        """
        if form == "torch":
            raise RecordMismatchError(
                f"{type(self._optimizer).__name__}: form='torch' is for optimizers with a rule for each parameter;"
                " state_dict() without it gives what this optimizer loads"
            )
        state_dict = super().state_dict()
        record = self._optimizer.into_record()
        group = {name: [*it] if isinstance(it, list) else it for name, it in state_dict["param_groups"][0].items()}
        group[LAYOUTS] = self._layouts()
        values = {name: value for name, value in record.values.items() if name != LAYOUTS}  # the group says it
        return {**state_dict, "state": {0: {**record.tensors, **values}}, "param_groups": [group]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Replace the state and the rate by those of `state_dict`, which this class gave.

        Raises:
            RecordMismatchError, ArgumentError: it is of another optimizer or of other parameters, or its rate is none;
                nothing has changed.
        """
        hooked = after_pre_hooks(self, state_dict)
        match hooked:
            case {"state": {0: Mapping() as fields, **others}, "param_groups": [Mapping() as group]} if not others:
                pass
            case _:
                raise RecordMismatchError(f"expected a state dict with one group and one state, got {hooked!r:.80}")
        current = self.param_groups[0]
        self._refuse_another_order(group.get("param_ids"), group.get("param_names"), _SOURCE)
        if group.get(LAYOUTS, self._layouts()) != self._layouts():
            raise RecordMismatchError(
                f"{_SOURCE} is of a module whose parameters lie otherwise, as torch's layers and burnlike's do, and the"
                f" state of {type(self._optimizer).__name__} is one for all; begin it anew. The optimizer is as it was"
            )
        # Before the state is replaced: a load that fails leaves the optimizer as it was.
        checked_rate(group.get("lr", 0.0))
        # Copies, as in torch: the program may go on with its dict.
        tensors = {name: field.detach().clone() for name, field in fields.items() if isinstance(field, Tensor)}
        values = {name: field for name, field in fields.items() if name not in tensors}
        if isinstance(self._optimizer, Lbfgs):
            values[LAYOUTS] = FlatParameters(self._module).layouts()  # which are those of the group
        self._optimizer.load_record(Record(tensors=tensors, values=values, source=_SOURCE), self._module)
        kept = ("params", "param_names", "param_ids", LAYOUTS)
        current.update({name: copy.deepcopy(value) for name, value in group.items() if name not in kept})
        run_post_hooks(self)

    def __getstate__(self) -> dict[str, Any]:
        # Without hooks, as in torch.
        return {name: self.__dict__[name] for name in ("defaults", "param_groups", "_module", "_optimizer", "state")}


class TorchLbfgs(TorchModuleOptimizer):
    """`Lbfgs` where code expects a `torch.optim.LBFGS`: `step(closure)`, schedulers, hooks, state dicts.

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

    def __init__(self, module: nn.Module, config: LbfgsConfig | Lbfgs, lr: float = 1.0, params: None = None) -> None:
        """As of TorchModuleOptimizer; an Lbfgs, in place of its config, belongs to this object from now on."""
        super().__init__(module, config.init() if isinstance(config, LbfgsConfig) else config, lr, params)

    @property
    def optimizer(self) -> Lbfgs:
        return self._optimizer

    @torch.optim.Optimizer.profile_hook_step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Up to `max_iter` iterations, each of which calls the closure, maybe several times; gives its first result."""
        if closure is None:
            raise ArgumentError("TorchLbfgs: step() needs a closure that computes the loss and its gradients")
        with torch.enable_grad():
            return self._optimizer.step_closure(float(self.param_groups[0]["lr"]), self._module, closure)

    step.hooked = True  # pyright: ignore[reportFunctionMemberAccess] - or torch would put the hooks around it again
