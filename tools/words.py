"""Finds docstrings of burnlike/ without a subject, and variables whose names name nothing.

`python -m tools.words [FOLDER]`, which `make lint` calls, prints each place; its status is 1 if there are any. A
docstring says what the thing is or does: a noun or a verb comes first. A variable says what it holds.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent / "burnlike"

HEADLESS = ("What", "Whether", "Those", "Which", "Of", "That", "Where")
"""First words of docstrings that have neither: "What reads a part of the data" is "the DataLoader of one split"."""
EMPTY = ("it", "found", "own", "known", "said", "given", "made")
"""Names that hold anything; `it` stays the variable of a comprehension and of a lambda."""


class Place(NamedTuple):
    """A docstring or a name to be replaced: its file, its line, and the words."""

    path: Path
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words}"


def headless_docstrings(path: Path, tree: ast.Module) -> Iterator[Place]:
    """The docstrings of a file that begin with a word of HEADLESS."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text and text.split(maxsplit=1)[0].rstrip(",:") in HEADLESS:
            line = node.body[0].lineno
            yield Place(path, line, f'a docstring begins with a noun or a verb, not with "{text.splitlines()[0][:60]}"')


def empty_names(path: Path, tree: ast.Module) -> Iterator[Place]:
    """The variables and arguments of a file whose names are among EMPTY."""
    in_comprehensions = {
        id(name)
        for node in ast.walk(tree)
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name) and name.id == "it"
    }
    of_lambdas = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        for argument in ast.walk(node.args)
        if isinstance(argument, ast.arg) and argument.arg == "it"
    }
    # The fields of a class are its interface, which users may know.
    fields = {
        id(line.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign)
    }
    left_alone = in_comprehensions | fields
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in left_alone:
            name = node.id
        elif isinstance(node, ast.arg) and id(node) not in of_lambdas:
            name = node.arg
        else:
            continue
        if name in EMPTY:
            yield Place(path, node.lineno, f"the variable `{name}` says nothing of what it holds")


def places(folder: Path) -> list[Place]:
    """All places below `folder`, by file and line."""
    found_in: list[Place] = []
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        shown = path.relative_to(folder.parent)
        found_in += [*headless_docstrings(shown, tree), *empty_names(shown, tree)]
    return sorted(found_in)


def main(folder: Path = PACKAGE) -> int:
    """Print the places below `folder`; the number of them decides the status."""
    listed = places(folder)
    for place in listed:
        print(place)
    return min(len(listed), 1)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
