"""The states of an OptimizerAdaptor as `torch.optim.Optimizer.state` shows them: dicts of fields by parameter."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from torch import Tensor

from ..errors import ArgumentError
from ..module import Param
from ..optim.core.state import flatten, unflatten
from ..optim.step.adaptor import OptimizerAdaptor


class LiveState(MutableMapping[str, Any]):
    """The fields of one parameter's state, `{"momentum.moment_1": tensor, "momentum.time": 3}`.

    Reading gives the tensors that steps update, writing replaces them. Made from a mapping alone, as libraries do that
    build a copy of the same type, it is a plain mapping.
    """

    def __init__(
        self, fields: Mapping[str, Any] | None = None, of: tuple[OptimizerAdaptor[Any], Param] | None = None
    ) -> None:
        self._fields, self._of = dict(fields or {}), of

    def copy(self) -> dict[str, Any]:
        if self._of is None:
            return dict(self._fields)
        state = self._of[0].state_of(self._of[1])
        if state is None:
            return {}
        tensors, values = flatten(state)
        return {**tensors, **values}

    def _replace(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        if self._of is not None:
            write_fields(*self._of, fields)

    def __getitem__(self, name: str) -> Any:
        return self.copy()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._replace({**self.copy(), name: value})

    def __delitem__(self, name: str) -> None:
        fields = self.copy()
        del fields[name]
        self._replace(fields)

    def __iter__(self) -> Iterator[str]:
        return iter(self.copy())

    def __len__(self) -> int:
        return len(self.copy())

    def __repr__(self) -> str:
        return repr(self.copy())

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy(self.copy(), memo)


class LiveStates(MutableMapping[Tensor, Any]):
    """The states of all parameters of an optimizer, by tensor.

    As in torch, one without a state shows an empty dict when it is asked for, and is not listed.
    """

    def __init__(
        self,
        optimizer: OptimizerAdaptor[Any],
        param_of: Callable[[Tensor], Param | None],
        members: Callable[[], Iterable[tuple[Tensor, Param]]],
    ) -> None:
        self._optimizer, self._param_of, self._members = optimizer, param_of, members

    def __getitem__(self, tensor: Tensor) -> LiveState:
        return LiveState(of=(self._optimizer, self._param(tensor)))

    def __setitem__(self, tensor: Tensor, fields: Mapping[str, Any]) -> None:
        write_fields(self._optimizer, self._param(tensor), dict(fields))

    def __delitem__(self, tensor: Tensor) -> None:
        if tensor not in self:
            raise KeyError(tensor)
        self._optimizer.set_state(self._param(tensor), None)

    def __contains__(self, tensor: object) -> bool:
        param = self._param_of(tensor) if isinstance(tensor, Tensor) else None
        return param is not None and self._optimizer.state_of(param) is not None

    def __iter__(self) -> Iterator[Tensor]:
        return iter([it for it, param in self._members() if self._optimizer.state_of(param) is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def get(self, tensor: Tensor, default: Any = None) -> Any:
        return self[tensor] if tensor in self else default  # noqa: SIM401 - a tensor without a state is no KeyError

    def replace_all(self, states: Mapping[Tensor, Mapping[str, Any]]) -> None:
        """Make `states` the states of all parameters: one that is not in it has none then."""
        after = dict(states)
        kept = set(map(id, after))
        for tensor in [it for it in self if id(it) not in kept]:
            del self[tensor]
        for tensor, fields in after.items():
            self[tensor] = fields

    def __repr__(self) -> str:
        return repr(dict(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Tensor, Any]:
        return copy.deepcopy(dict(self), memo)

    def _param(self, tensor: Tensor) -> Param:
        param = self._param_of(tensor)
        if param is None:
            raise KeyError(f"a tensor of shape {list(tensor.shape)} that is in no group of the optimizer")
        return param


def write_fields(optimizer: OptimizerAdaptor[Any], param: Param, fields: Mapping[str, Any]) -> None:
    """Make `fields`, which have to be those of its rule's states, the state of `param`; without any it has none."""
    if not fields:
        optimizer.set_state(param, None)
        return
    wrong = next((name for name in fields if not isinstance(name, str)), None)
    if wrong is not None:
        raise ArgumentError(f"the state of '{param.path}': expected names of fields, got {wrong!r}")
    tensors = {name: value for name, value in fields.items() if isinstance(value, Tensor)}
    values = {name: value for name, value in fields.items() if name not in tensors}
    rule = optimizer.rules.rule_of(param.id, param.path)
    optimizer.set_state(param, unflatten(rule.state_type, tensors, values))
