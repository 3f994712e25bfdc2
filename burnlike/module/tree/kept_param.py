"""KeptParam, the handle of a traversal that is kept."""

import weakref
from typing import Any

from torch import Tensor, nn

from ..._torch_compat.fsdp import MANAGED, sharded
from ...errors import ModuleTreeError
from ..identity.param_id import ParamId
from .param import Kind, Param

_new = object.__new__


class KeptParam(Param):
    """A Param of a traversal that is kept: it holds the modules weakly, so that what is removed is free at once."""

    __slots__ = ()

    def __init__(
        self, param_id: ParamId, path: str, kind: Kind, owner: nn.Module, name: str, home: tuple[nn.Module, str]
    ) -> None:
        self.id = param_id
        self.path = path
        self.kind = kind
        self.aliases = ()
        self._module: Any = weakref.ref(owner)
        self._name = name
        self._others: Any = ()
        module, home_name = home
        self._home: Any = None if module is owner and home_name == name else (weakref.ref(module), home_name)

    def add(self, owner: nn.Module, name: str, path: str) -> None:
        self._others = (*self._others, (weakref.ref(owner), name))
        self.aliases = (*self.aliases, path)

    @property
    def owners(self) -> tuple[tuple[nn.Module, str], ...]:
        return tuple([(self._alive(module), name) for module, name in ((self._module, self._name), *self._others)])

    @property
    def home(self) -> tuple[nn.Module, str]:
        module, name = self._home or (self._module, self._name)
        return self._alive(module), name

    @property
    def tensor(self) -> Tensor:
        """The tensor as it is now; quicker than by `owners`, since optimizers ask for it at each step."""
        module = self._module() or self._alive(self._module)
        # group_of, written out
        shown: Any = (module._parameters if self.kind == "weight" else module._buffers)[self._name]
        return sharded(module, self._name, shown) if MANAGED in module.__dict__ else shown

    def _alive(self, module: Any) -> nn.Module:
        found = module()
        if found is None:
            raise ModuleTreeError(f"the module that held '{self.path}' is gone; traverse the tree again")
        return found

    def strong(self) -> Param:
        """A Param like this one that holds its modules."""
        # Without Param's `__init__`, as there are many.
        made = _new(Param)
        made.id, made.path, made.kind, made.aliases = self.id, self.path, self.kind, self.aliases
        made._module, made._name = self._alive(self._module), self._name
        made._others = self.owners[1:] if self._others else ()
        made._home = self.home if self._home else None
        return made
