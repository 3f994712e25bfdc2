"""Text for terminals: safe where it comes from files and users, and aligned as a table."""

from collections.abc import Sequence


def harmless(text: str) -> str:
    """The text with its lines and tabs, but with codes that a terminal would obey written as `\\x1b` and the like."""
    return "".join(it if it.isprintable() or it in "\n\t" else repr(it)[1:-1] for it in text)


def one_line(text: str) -> str:
    """The text; with line breaks and codes that a terminal would obey as `\\n`, `\\x1b` and the like."""
    return "".join(it if it.isprintable() else repr(it)[1:-1] for it in text)


def table(rows: Sequence[Sequence[str]], right: int | None = None) -> list[str]:
    """Rows as aligned lines, the first of them the heads.

    Args:
        rows: cells, as many in each.
        right: the column whose cells are flush right.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column == right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
