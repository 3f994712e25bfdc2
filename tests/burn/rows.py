"""Rows of docs/deviations, each with the case that shows it: a row that no case shows is a failure.

A file `rows_SECTION.py` has the rows of a section, as functions with `@row("subject")` that assert what Burn does, by
running it, and that burnlike does what the row says instead.
"""

from collections.abc import Callable
from pathlib import Path

_PAGES = Path(__file__).parents[2] / "docs" / "deviations"
SHOWN: dict[str, Callable[[], None]] = {}
ELSEWHERE: dict[str, str] = {}
"""Rows that no program of Burn's can show, with the test that shows what burnlike does."""


def row(subject: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register what shows a row, by the text of its first cell."""

    def register(show: Callable[[], None]) -> Callable[[], None]:
        assert subject not in SHOWN, subject
        SHOWN[subject] = show
        return show

    return register


def rows_of(section: str) -> list[str]:
    """The first cells of a section's rows."""
    heading = f"# Deviations from Burn: {section.lower()}\n"
    (text,) = (page for it in _PAGES.glob("*.md") if (page := it.read_text()).startswith(heading))
    cells = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    return [cell for cell in cells if cell not in ("subject", "---")]
