"""Tensors that stand in for those of a module while its own code writes to them."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.modules import LOAD_HOOKS
from ..._torch_compat.tensors import times_written
from ...module import Param
from ...module.identity.field_metadata import group_of
from ...module.torch_objects.lazy_parameter import is_lazy
from ...module.torch_objects.wrappers import is_distributed
from ..state_dict.own_code import OwnCode, origin

_GROUPS = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class StandIns:
    """Within it, the parameters of a module are others with the same values; `undo` takes back all that was done.

    Hooks of torch.distributed are away: they divide tensors among processes, which is done when values are loaded.
    `values` has the values for some paths, whose types the stand-ins take; those without memory are made on `device`.
    After it, `now` has what the code left at each path.
    """

    def __init__(
        self, module: nn.Module, found: Sequence[Param], values: Mapping[str, Tensor], device: torch.device
    ) -> None:
        self._parts = [*module.modules()]
        self._before = [
            (it, {**it.__dict__}, {name: copy.copy(it.__dict__[name]) for name in _GROUPS}) for it in self._parts
        ]
        self._extra = [(it, copy.deepcopy(it.get_extra_state())) for it in self._parts if _has_extra_state(it)]
        with torch.inference_mode(False):
            self._made = {it.path: _stand_in(it, values.get(it.path), device) for it in found}
        self._versions = {path: times_written(made) for path, made in self._made.items()}
        self._present = {it.path: it.tensor for it in found}
        self._found = found
        self.now: dict[str, Tensor] = {}

    def __enter__(self) -> None:
        for param in self._found:
            for owner, name in param.owners:
                group_of(owner, param.kind)[name] = self._made[param.path]
        for part in self._parts:
            for name in LOAD_HOOKS:
                hooks = part.__dict__[name]
                own = {key: hook for key, hook in hooks.items() if origin(hook) is not OwnCode.NONE}
                if len(own) < len(hooks):
                    part.__dict__[name] = type(hooks)(own)

    def __exit__(self, *_: Any) -> None:
        for param in self._found:
            made = self._made[param.path]
            groups = [(group_of(owner, param.kind), name) for owner, name in param.owners]
            others = (it for group, name in groups if (it := group.get(name)) is not None and it is not made)
            self.now[param.path] = next(others, made).detach()
            for group, name in groups:
                if group.get(name) is not None:
                    group[name] = self._present[param.path]
        for part, attributes, _groups in self._before:
            for name in LOAD_HOOKS:
                part.__dict__[name] = attributes[name]

    def is_written(self, param: Param) -> bool:
        made, now = self._made[param.path], self.now[param.path]
        return now.data_ptr() != made.data_ptr() or times_written(made) != self._versions[param.path]

    def has_values(self, param: Param) -> bool:
        """Whether it has values to be loaded, those it had or new ones, and was more than memory."""
        return self.is_written(param) or _has_values(self._present[param.path])

    def undo(self) -> None:
        try:
            for part, state in self._extra:
                part.set_extra_state(state)
        finally:
            for part, attributes, groups in self._before:
                part.__dict__.clear()
                part.__dict__.update(attributes)
                for name, content in groups.items():
                    part.__dict__[name].clear()
                    part.__dict__[name].update(content)


def _has_extra_state(part: nn.Module) -> bool:
    cls = type(part)
    return cls.get_extra_state is not nn.Module.get_extra_state and cls.set_extra_state is not nn.Module.set_extra_state


def _has_values(tensor: Tensor) -> bool:
    return not (tensor.is_meta or is_lazy(tensor) or is_distributed(tensor))


def _stand_in(param: Param, values: Tensor | None, device: torch.device) -> Tensor:
    present: Any = param.tensor
    dtype = present.dtype if values is None else values.dtype
    if _has_values(present):
        made = present.detach().to(dtype, copy=True)
    else:
        made = torch.zeros(present.shape, dtype=dtype, device=device if present.is_meta else present.device)
    if param.kind == "weight":
        return nn.Parameter(made, requires_grad=present.requires_grad and made.is_floating_point())
    return made
