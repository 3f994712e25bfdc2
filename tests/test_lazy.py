"""Lazy packages: what their stubs list is there at run time."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PARTS = ["backend", "data", "func", "interop", "mlax", "models", "module", "nn", "optim", "record", "tensor", "train"]
PACKAGES = ["burnlike", *(f"burnlike.{part}" for part in PARTS), "burnlike.train.metrics"]


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
    lazy = {
        path.parent.relative_to(root.parent) for path in root.rglob("__init__.py") if "= attach(" in path.read_text()
    }
    assert {".".join(path.parts) for path in lazy} == {*PACKAGES}
