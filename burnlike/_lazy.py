"""Packages whose names are imported at first use, so that `import burnlike` and `burnlike check` stay without torch."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def attach(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__getattr__` and `__dir__` of a lazy package (PEP 562).

    Args:
        package: the package's `__name__`.
        names: public name -> submodule that defines it; an empty string means that the name is a submodule itself.
    """
    # Importing a submodule sets it as an attribute of the package: it would hide a function of the same name.
    assert not {name for name, submodule in names.items() if submodule} & set(names.values())

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        submodule = names[name]
        module = importlib.import_module(f"{package}.{submodule or name}")
        value = getattr(module, name) if submodule else module
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*names, *vars(sys.modules[package])})

    return __getattr__, __dir__


def resolve(target: str) -> Any:
    """Import what `"package.module:name"` names.

    The one way a part calls a part above it (`module.save` needs the records): the target is a constant in our own
    code, never a user's text.
    """
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
