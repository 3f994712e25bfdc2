"""Dicts and enums of modules, as modules. A dict assigned to a Module becomes a `ModuleDict`."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from torch import nn

from ...errors import ModuleTreeError
from ..module import Module
from .sequences import Container


class ModuleDict(Container, MutableMapping[str, Any]):
    """Modules, parameters, None and constants by name; a dict assigned to a Module becomes one.

    Raises:
        ModuleTreeError: a name is not a text, or can't be a part of a path.
    """

    _burnlike_container = "Dict"
    _keys: dict[str, None]

    def __init__(self, items: Mapping[str, Any] | None = None, *, where: str = "ModuleDict") -> None:
        super().__init__()
        self.__dict__["_keys"] = {}
        for name in items or {}:
            self._check(name, where)
        for name, item in (items or {}).items():
            self[name] = items._shown(name) if isinstance(items, ModuleDict) else item

    def _names(self) -> list[str]:
        return [*self._keys]

    def _check(self, name: object, where: str) -> None:
        if name not in self.__dict__["_keys"]:
            check_name(self, name, where)

    def __getitem__(self, name: str) -> Any:
        if name not in self._keys:
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, item: Any) -> None:
        self._check(name, "ModuleDict")
        setattr(self, name, item)
        self.__dict__["_keys"] = {**self._keys, name: None}  # copies of the tree refer to the dict that was

    def __delitem__(self, name: str) -> None:
        if name not in self._keys:
            raise KeyError(name)
        delattr(self, name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self.__dict__["_keys"] = {key: None for key in self._keys if key != name}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def check_name(module: nn.Module, name: object, where: str) -> None:
    """Raise ModuleTreeError for a name that a part of `module` can't have in a path."""
    if not isinstance(name, str) or not name or "." in name:
        raise ModuleTreeError(
            f"{where}: expected names of modules to be texts without dots, got {name!r};"
            f" use another name, such as {str(name).replace('.', '_') or 'first'!r}"
        )
    groups = (module.__dict__, module._parameters, module._buffers, module._modules)
    if hasattr(type(module), name) or any(name in group for group in groups):
        raise ModuleTreeError(
            f"{where}: '{name}' can't name a module, since it is an attribute of {type(module).__name__} already;"
            f" use another name, such as '{name}_'"
        )


class ModuleEnum(Module):
    """One of several variants, each with a module of its own (Burn's enum): subclass it, and name the variant.

    Example:
        >>> from torch import nn
        >>> class Head(ModuleEnum): ...
        >>> head = Head(Plain=nn.Linear(2, 1))
        >>> head.variant, head.value
        ('Plain', Linear(in_features=2, out_features=1, bias=True))
    """

    def __init__(self, **variant: Any) -> None:
        super().__init__()
        if len(variant) != 1:
            raise ModuleTreeError(f"{type(self).__name__}: expected one variant=module, got {list(variant) or 'none'}")
        ((name, value),) = variant.items()
        check_name(self, name, type(self).__name__)
        self.__dict__["_variant"] = name
        setattr(self, name, value)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._burnlike_container = f"Enum:{cls.__name__}"

    @property
    def variant(self) -> str:
        return self.__dict__["_variant"]

    @property
    def value(self) -> Any:
        """The content of the variant: a module, or None and constants."""
        return getattr(self, self.variant)
