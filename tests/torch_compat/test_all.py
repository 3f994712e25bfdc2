"""Of the folder as a whole."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from burnlike import _torch_compat

from . import test_foreach

FILES = sorted(path.stem for path in Path(_torch_compat.__file__).parent.glob("[a-z]*.py"))


def names_in(file: str) -> set[str]:
    """The names of a file of `_torch_compat` for others: functions, classes, constants, and some of torch."""
    module = importlib.import_module(f"burnlike._torch_compat.{file}")
    tree = ast.parse(Path(module.__file__ or "").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    constants = {it.id for target in targets for it in ast.walk(target) if isinstance(it, ast.Name)}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and not node.level]
    handed_on = {alias.name for node in imports for alias in node.names if alias.name == alias.asname}
    names = {*functions, *constants, *handed_on, *getattr(module, "__all__", ())}
    return {name for name in names if not name.startswith("_") and len(name) > 1}


@pytest.mark.parametrize("file", FILES)
def test_each_name_has_a_test(file: str) -> None:
    tests = importlib.import_module(f"tests.torch_compat.test_{file}")
    in_tables = {*test_foreach.IN_PLACE, *test_foreach.RESULTS} if file == "foreach" else set[str]()
    assert names_in(file)
    assert {name for name in names_in(file) if not hasattr(tests, f"test_{name}")} == in_tables


def test_none_imports_the_compiler() -> None:
    """Which takes seconds."""
    program = f"""
import sys
from burnlike._torch_compat import {", ".join(FILES)}
sys.exit("torch._dynamo.convert_frame" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
