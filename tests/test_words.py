"""Tests of the lint of words: what it finds, and what it leaves alone."""

from pathlib import Path

import pytest

from tools.words import places

WRONG = {
    "a module": '"""What reads a part of the data."""\n',
    "a class": 'class Part:\n    """Those of the data."""\n',
    "a function": 'def part():\n    """Whether it is read."""\n',
    "a place": 'def part():\n    """Where it lies."""\n',
    "a variable": "found = 1\n",
    "a loop": "for it in range(2):\n    pass\n",
    "a condition": "if known := input():\n    pass\n",
    "an argument": "def part(given):\n    return 1\n",
    "a block": "with open(__file__) as own:\n    pass\n",
    "other names of a comprehension": "parts = [said for said in range(2)]\n",
    "other arguments of a lambda": "part = lambda made: 1\n",
}
RIGHT = {
    "a noun": '"""The DataLoader of one split."""\n',
    "a verb": 'def read():\n    """Read one split."""\n',
    "a comprehension": "parts = [it for it in range(2)]\n",
    "a lambda": "part = lambda it: it\n",
    "an attribute": "class Part:\n    def __init__(self):\n        self.found = 1\n",
    "a field": "class Part:\n    found: int\n",
    "no docstring": "part = 'What a text says'\n",
}


def written(folder: Path, text: str) -> Path:
    package = folder / "package"
    package.mkdir()
    (package / "part.py").write_text(text)
    return package


@pytest.mark.parametrize("name", WRONG)
def test_a_text_without_a_subject_and_a_name_of_anything_are_found(name: str, tmp_path: Path) -> None:
    (place,) = places(written(tmp_path, WRONG[name]))
    assert str(place.path) == "package/part.py"
    before, docstring, _ = WRONG[name].partition('"""')
    assert place.line == (before.count("\n") + 1 if docstring else 1)


@pytest.mark.parametrize("name", RIGHT)
def test_all_else_is_left_alone(name: str, tmp_path: Path) -> None:
    assert places(written(tmp_path, RIGHT[name])) == []
