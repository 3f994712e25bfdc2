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


def test_the_old_name_of_a_renamed_thing_warns_and_says_how_long_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package_with_old_names"
    package.mkdir()
    renamed = 'renamed={"old": ("new", "0.3.1")}'
    code = f"from burnlike._lazy import attach\n__getattr__, __dir__, __all__ = attach(__name__, __file__, {renamed})\n"
    (package / "__init__.py").write_text(code)
    (package / "__init__.pyi").write_text("from .part import new as new\n")
    (package / "part.py").write_text("new = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    named = importlib.import_module(package.name)
    with pytest.warns(FutureWarning, match=r"old is called \S+new since burnlike 0\.3\.1; 0\.5 does not") as warned:
        assert named.old == 7
    assert warned[0].filename == __file__
    assert "old" not in named.__all__
