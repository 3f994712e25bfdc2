"""Imports the public names of a package at first use, so that `import burnlike` and `burnlike check` load no torch."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make the `__getattr__`, `__dir__` and `__all__` of a lazy package (PEP 562).

    The names are those that the stub beside the package's file imports (`from .linear import Linear as Linear`): type
    checkers read the same list.

    Args:
        package: its `__name__`.
        file: its `__file__`.
    """
    submodules = _listed(Path(file).with_suffix(".pyi"))
    # Importing a submodule sets it as an attribute of the package: it would hide a function of the same name.
    assert not {name for name, submodule in submodules.items() if submodule != "."} & {
        it.split(".")[1] for it in submodules.values()
    }

    def __getattr__(name: str) -> Any:
        if name not in submodules:
            from ._burn_names import called_here

            raise AttributeError(f"module {package!r} has no attribute {name!r}{called_here(name)}")
        submodule = submodules[name]
        itself = submodule == "."
        module = _imported(f".{name}" if itself else submodule, package)
        value = module if itself else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*submodules, *vars(sys.modules[package])})

    return __getattr__, __dir__, sorted(submodules)


def _listed(stub: Path) -> dict[str, str]:
    """Each name that a stub imports, and the module that defines it as seen from the package; `.` for a submodule."""
    imports = [it for it in ast.parse(stub.read_text()).body if isinstance(it, ast.ImportFrom)]
    return {alias.name: "." * it.level + (it.module or "") for it in imports for alias in it.names}


def resolve(target: str) -> Any:
    """Import what `"package.module:name"` names.

    The one way a part calls a part above it (`module.save` needs the records): the target is a constant in our own
    code, never a user's text.
    """
    module, _, name = target.partition(":")
    return getattr(_imported(module), name)


_EXTRAS = {
    **dict.fromkeys(("torchmetrics", "psutil", "rich", "numpy"), "train"),
    "PIL": "images",
    "torchvision": "torchvision",
    "datasets": "datasets",
    "pyarrow": "parquet",
    "tokenizers": "tokenizers",
    "transformers": "transformers",
}
"""The extra that brings each package that a part of burnlike imports."""


def _imported(module: str, package: str | None = None) -> ModuleType:
    try:
        return importlib.import_module(module, package)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        from .errors import MissingPackageError

        raise MissingPackageError(
            f"this needs the package {missing}: pip install 'burnlike[{_EXTRAS[missing]}]'", name=error.name
        ) from error
