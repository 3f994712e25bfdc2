"""`make lint` fails where a file is opened, replaced, removed or followed beside the functions that do so for all."""

from pathlib import Path

import pytest

from tools.doors import problems

SIBLINGS = {
    "open to write": "open(path, 'w')",
    "open to append": "open(path, mode='ab')",
    "open in a mode of the caller": "open(path, mode)",
    "a path's open": "path.open('x')",
    "io.open": "import io; io.open(path, 'r+')",
    "a descriptor": "import os; os.open(path, os.O_WRONLY)",
    "write_text": "path.write_text('x')",
    "write_bytes": "(folder / name).write_bytes(b'x')",
    "os.replace": "import os; os.replace(a, b)",
    "an imported name": "from os import rename as move; move(a, b)",
    "a path's rename": "path.rename(b)",
    "a path's replace": "path.replace(b)",
    "shutil.move": "import shutil; shutil.move(a, b)",
    "rmtree": "import shutil as s; s.rmtree(path)",
    "rmtree handed on": "import shutil; call(shutil.rmtree)",
    "unlink": "path.unlink(missing_ok=True)",
    "os.remove": "import os; os.remove(path)",
    "a copy": "from shutil import copyfile; copyfile(a, b)",
    "a copied tree": "import shutil; shutil.copytree(a, b)",
    "realpath": "from os.path import realpath; realpath(path)",
    "resolve": "path.resolve()",
    "a pattern": "import re; re.compile(text)",
    "a part of a pattern": "import re; re.fullmatch(rf'a{text}', name)",
}
OTHERS = {
    "open to read": "open(path, 'rb'); open(path); path.open(); path.open('r', encoding='utf-8')",
    "a descriptor that another has opened": "open(file.descriptor, 'wb', closefd=False)",
    "texts and configs": "text.replace('a', 'b'); config.replace(rate=1); dataclasses.replace(config, rate=1)",
    "references": "from burnlike._lazy import resolve; resolve(name); tree.resolve(path, kind)",
    "patterns of the code": "import re; re.compile('a' 'b'); re.match(rf'{_NAME}-{re.escape(text)}', text)",
}


def planted(folder: Path, code: str) -> list[str]:
    (folder / "nn").mkdir()
    (folder / "nn" / "linear.py").write_text(f"{code}\n")
    return problems(folder)


@pytest.mark.parametrize("name", SIBLINGS)
def test_a_second_way_to_files_is_found(name: str, tmp_path: Path) -> None:
    (problem,) = planted(tmp_path, SIBLINGS[name])
    assert problem.startswith(f"{tmp_path.name}/nn/linear.py:1: ")


@pytest.mark.parametrize("name", OTHERS)
def test_what_changes_no_file_is_left(name: str, tmp_path: Path) -> None:
    assert planted(tmp_path, OTHERS[name]) == []


def test_a_row_that_nothing_needs_is_found(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    (tmp_path / "record/formats.py").write_text("")
    (problem,) = problems(tmp_path)
    assert "record/formats.py: no use is a pattern any more" in problem
