"""What the pages that are written from docstrings share: their lines, their tables, and `--check`."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def line_of(doc: str, label: str) -> str:
    """The text after `label:` in a docstring, up to the next label, section or empty line; empty if there is none.

    The label begins a line, or follows a sentence.
    """
    found = re.search(rf"(?:^|\. ){label}: *(.*(?:\n(?!\s*$|\s*[A-Z]\w+:).*)*)", doc, re.MULTILINE)
    return re.split(r"\.\s+(?=Torch:|Differs:|Raises \w+:)", re.sub(r"\s+", " ", found[1]))[0].strip() if found else ""


def beside_torch(doc: str) -> tuple[str, str]:
    """The `Torch:` and `Differs:` lines of a docstring, as cells."""
    return line_of(doc, "Torch").rstrip("."), (line_of(doc, "Differs") or "-").rstrip(".")


def table(heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A heading, if there is one, and a table; the first item of a row is its name, which is not shown."""
    lines = [
        *([heading, ""] if heading else []),
        _line(columns),
        _line(["---"] * len(columns)),
        *(_line(row[1:]) for row in rows),
    ]
    return "\n" + "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(name: str, page: Callable[[], str], path: Path, arguments: list[str] | None = None) -> int:
    """Write a page, or with `--check` see that it is what would be written.

    Args:
        name: of the tool's module.
        page: makes the whole text.
        path: of the page.
        arguments: of the command line; None for those of the process.

    Returns:
        1 if the page is stale.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=f"Write docs/{path.name}.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if the page is stale")
    if parser.parse_args(arguments).check:
        stale = not path.exists() or path.read_text() != page()
        if stale:
            print(f"{path.name} is stale; run `make docs`", file=sys.stderr)
        return int(stale)
    path.write_text(page())
    return 0
