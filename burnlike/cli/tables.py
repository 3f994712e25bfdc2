"""Text for terminals: names and values that are safe to show."""

import json
import os
import shlex
from typing import Any

from .._terminal import harmless

_LONGEST_VALUE = 100
_MEANS_MORE = "'\\"
"""Characters that end or escape something between `$'` and `'`."""


def say(text: str) -> None:
    """Print what may come from files: without codes that a terminal would obey."""
    print(harmless(text))


def say_json(value: Any, indent: int | None = 2) -> None:
    """Print JSON for programs, and for terminals: letters as they are, what is not printable as `\\u001b`."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    print("".join(it if it.isprintable() or it == "\n" else json.dumps(it)[1:-1] for it in text))


def shortened(value: Any) -> str:
    """A plain value in at most about a hundred characters."""
    text = printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}... ({len(text)} characters)"


def printable(text: str) -> str:
    """The text; with line breaks and codes that a terminal would obey as `\\n`, `\\x1b` and the like, in quotes."""
    return text if text.isprintable() else repr(text)


def shell_word(text: str) -> str:
    """The text as one word of a shell's command line, printable and on one line (`$'...'` as bash and zsh read it)."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = {it: "".join(f"\\x{byte:02x}" for byte in os.fsencode(it)) for it in text}
    return f"$'{''.join(it if it.isprintable() and it not in _MEANS_MORE else escaped[it] for it in text)}'"


def amount(count: int) -> str:
    """A number of bytes as people read it: `1.50 GB (1500000000 bytes)`."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.2f} {unit} ({count} bytes)"
    return f"{count} bytes"
