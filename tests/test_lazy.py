"""Lazy packages: what is listed, what type checkers see, and what there is at run time are the same names."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PARTS = ["backend", "data", "func", "interop", "mlax", "module", "nn", "optim", "record", "tensor", "train"]
PACKAGES = ["burnlike", *(f"burnlike.{part}" for part in PARTS)]


def imported(package: ModuleType, statements: list[ast.stmt]) -> list[str]:
    """The names that a package imports from its own files."""
    names: list[str] = []
    for statement in statements:
        if not isinstance(statement, ast.ImportFrom) or statement.level != 1:
            continue
        found = [alias.asname or alias.name for alias in statement.names]
        names += getattr(package, statement.module or "").__all__ if found == ["*"] else found
    return names


@pytest.mark.parametrize("name", PACKAGES)
def test_one_list_of_names(name: str) -> None:
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__ or "").read_text())
    guarded = [it for it in tree.body if isinstance(it, ast.If) and ast.unparse(it.test) == "TYPE_CHECKING"]
    lazy = imported(package, [it for block in guarded for it in block.body])
    at_once = [it for it in imported(package, tree.body) if it not in ("attach", "configs")]
    assert sorted(package.__all__) == sorted(lazy + at_once)


def test_dir_lists_every_name_before_anything_is_loaded() -> None:
    code = f"import importlib\nfor name in {PACKAGES}: print(*dir(importlib.import_module(name)))"
    listed = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    for name, names in zip(PACKAGES, listed.stdout.splitlines(), strict=True):
        assert {*importlib.import_module(name).__all__, "__name__", "__doc__", "__all__"} <= {*names.split()}


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_there(name: str) -> None:
    package = importlib.import_module(name)
    for attribute in package.__all__:
        assert getattr(package, attribute) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


def test_every_lazy_package_is_tested() -> None:
    root = Path(importlib.import_module("burnlike").__file__ or "").parent
    lazy = {path.parent.relative_to(root.parent) for path in root.rglob("__init__.py") if "attach(" in path.read_text()}
    assert {".".join(path.parts) for path in lazy} == {*PACKAGES}
