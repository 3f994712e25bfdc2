"""Paths into a config, `model.layers[2].d_output`, as `--set`, `--sweep` and `${...}` take them."""

import re

APPEND = "[+]"
"""The step to a new item at the end of a list."""

_PART = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_LONGEST_INDEX = 9


class KeyPathError(ValueError):
    """A text that is no path; the message says what is wrong with it."""


def steps_of(text: str) -> list[str | int]:
    """The steps of a path: the key of a mapping as text, the index in brackets as an int, `[+]` as `APPEND`.

    An item of a list may also be written as a key, `layers.2`, which is a text here as it could be a mapping's.

    Raises:
        KeyPathError: a part is empty, or brackets hold no index.

    Example:
        >>> steps_of("model.layers[2].d_output")
        ['model', 'layers', 2, 'd_output']
    """
    steps: list[str | int] = []
    for part in text.split("."):
        found = _PART.fullmatch(part.strip())
        if found is None or not found[1].strip():
            raise KeyPathError("a path is keys joined by dots, with indices in brackets: model.layers[2].d_output")
        steps.append(found[1].strip())
        steps.extend(map(_index, re.findall(r"\[([^\[\]]*)\]", found[2])))
    return steps


def joined(steps: list[str | int]) -> str:
    """The path as messages write it, `model.layers.2.d_output`."""
    return ".".join(map(str, steps))


def _index(text: str) -> str | int:
    text = text.strip()
    if text == "+":
        return APPEND
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_INDEX):
        raise KeyPathError(f"[{text}] is no index of a list; expected a number from 0, such as [2]")
    return int(text)
