"""Module, the base of burnlike's layers: an `nn.Module` with Burn's methods, and any field as a part of it."""

import copy
from typing import Any, Self

import torch
from torch import nn

from .constants import Constant
from .methods import ModuleMethods
from .modes import restore_intent
from .param import Param
from .slots import ensure_id, meta_of, remember_field, set_meta, stored_ids


class Module(ModuleMethods, nn.Module):
    """An `nn.Module` with Burn's module methods. No `forward` is forced.

    A parameter or buffer gets its ParamId when its name first gets a tensor, and keeps it when the tensor is replaced.
    Fields are visited, displayed and saved in the order in which they were first assigned. A field may be

    * an `nn.Parameter`, a buffer, a module: as in torch;
    * a `Param`, which declares a parameter with an id, a label, mappers, or lazy values;
    * a list, tuple or dict that holds any of these, or a container of the user's own (`ModuleContainer`): a child;
    * `burnlike.constant(module)`: a module that is only referred to;
    * a plain tensor: it moves with `to`, and is neither visited nor saved;
    * anything else: a constant.

    Every function of `burnlike.module` and `burnlike.record` works on plain `nn.Module`s too, which get their ids at
    the first traversal.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        slots = cls.__dict__.get("__slots__", ())
        if slots:
            names = [slots] if isinstance(slots, str) else list(slots)
            raise TypeError(
                f"{cls.__name__}.__slots__ = {names}: fields in slots are seen by no traversal; leave __slots__ out"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training":
            super().__setattr__(name, value)
            return
        if isinstance(value, Param):
            self._hold(name, value)
            return
        if isinstance(value, Constant):
            self._refer(name, value.value)
            return
        if not isinstance(value, nn.Module | torch.Tensor):
            from .containers import Held, wrap

            value = wrap(value)
            if isinstance(value, Held):
                super().__setattr__(name, value)
                remember_field(self, name)
                value.attach(self, name)
                return
        super().__setattr__(name, value)
        remember_field(self, name)

    def _hold(self, name: str, param: Param) -> None:
        """Make the declared parameter a field, with its id and what else is known about it."""
        tensor = param.tensor
        before = stored_ids(self).get(name)
        stored_ids(self)[name] = param.id
        try:
            if param.kind == "weight":
                super().__setattr__(name, tensor)
            elif name in self._buffers:
                self._buffers[name] = tensor
            else:
                self.__dict__.pop(name, None)
                self.register_buffer(name, tensor)
        except (TypeError, KeyError):
            del stored_ids(self)[name]
            if before is not None:
                stored_ids(self)[name] = before
            raise
        set_meta(self, name, meta_of(*param.home))
        remember_field(self, name)

    def _refer(self, name: str, value: Any) -> None:
        for group in (self._parameters, self._buffers, self._modules):
            group.pop(name, None)
        self.__dict__[name] = value
        self.__dict__.setdefault("_constants", {})[name] = None
        remember_field(self, name)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """As `nn.Module.register_parameter`; the name gets its ParamId."""
        super().register_parameter(name, param)
        remember_field(self, name)
        if param is not None:
            ensure_id(self, name)

    def register_buffer(self, name: str, tensor: torch.Tensor | None, persistent: bool = True) -> None:
        """As `nn.Module.register_buffer`; the name of a persistent buffer gets its ParamId."""
        super().register_buffer(name, tensor, persistent)
        remember_field(self, name)
        if persistent and tensor is not None:
            ensure_id(self, name)

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """As `nn.Module.add_module`."""
        super().add_module(name, module)
        remember_field(self, name)

    def train(self, mode: bool = True) -> Self:
        """As `nn.Module.train`; training mode also tracks again what `valid` stopped tracking."""
        super().train(mode)
        if mode:
            _restore_intents(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """As `nn.Module.requires_grad_`; it is also what `train` restores."""
        for param in self.params():
            param.set_require_grad(requires_grad)
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        for name, value in self.__dict__.items():
            if isinstance(value, torch.Tensor):
                self.__dict__[name] = fn(value)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy the tree with its ids; constants are referred to, not copied, unless they are part of what is copied."""
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        constants = self.__dict__.get("_constants", {})
        # The outermost copy knows at its end which constants were copied with the tree.
        late = memo.get("burnlike.constants")  # pyright: ignore[reportCallIssue, reportArgumentType]
        outermost = late is None
        if late is None:
            late = memo["burnlike.constants"] = []  # pyright: ignore[reportArgumentType]
        for name, value in self.__dict__.items():
            if name == "_compiled_call_impl":  # of `self.compile()`: it computes with the original
                continue
            if name in constants:
                new.__dict__[name] = value
                late.append((new, name, value))
            else:
                new.__dict__[name] = copy.deepcopy(value, memo)
        if outermost:
            for module, name, value in late:
                module.__dict__[name] = memo.get(id(value), value)
            del memo["burnlike.constants"]  # pyright: ignore[reportArgumentType]
        return new


def _restore_intents(module: nn.Module) -> None:
    """Track again what is meant to be trained in `module` and the plain modules in it; a Module sees to its own."""
    for name in module.__dict__.get("_param_metas", ()):
        restore_intent(module, name)
    for child in module._modules.values():
        if child is not None and not isinstance(child, Module):
            _restore_intents(child)
