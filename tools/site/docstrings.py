"""Docstrings, which are Google style with Markdown, as reStructuredText, which Sphinx reads."""

import re

_SPAN = re.compile(r"(``[^`]+``|`[^`]+`)", re.DOTALL)
_SPECIAL = re.compile(r"([\\*|]|(?<=\w)_(?!\w)|(?<!\w)_(?=\w))")
_ITEM = re.compile(r"\s*(?:[*-]|\d+\.) ")
_LABEL = re.compile(r"\n(?:Torch|Differs): .*(?:\n {4}.*)*")
_STARTS, _ENDS = " \n([{<'\"-/:", " \n)]}>'\"-/:.,;!?\\"


def to_rst(text: str) -> str:
    """The text with code spans, fenced code and lists as reStructuredText has them; doctests stay."""
    parts: list[str] = []
    text = _LABEL.sub(lambda it: "\n\n" + " ".join(it[0].split()), text)
    for block in re.split(r"(\n[ \t]*```.*?```[ \t]*(?=\n|$)|\n\s*\n)", f"\n{text}", flags=re.DOTALL):
        if block.strip().startswith("```"):
            parts.append(_code(block))
        elif block.lstrip().startswith(">>>"):
            parts.append(block)
        else:
            parts.append(_prose(block))
    return "".join(parts)[1:]


def inline(text: str) -> str:
    """A part of a line."""
    return _escaped(" ".join(text.split()))


def _code(block: str) -> str:
    first, *lines, _ = block.strip("\n").splitlines()
    indent = first[: len(first) - len(first.lstrip())]
    language = first.strip("` ") or "text"
    return "\n".join(["", "", f"{indent}.. code-block:: {language}", "", *(f"   {it}" for it in lines), "", ""])


def _prose(block: str) -> str:
    """A paragraph, perhaps with a doctest or a list below its first lines."""
    lines: list[str] = []
    before, rest, _ = block.partition("\n>>>") if "\n>>>" in block else (block, "", "")
    for line in before.split("\n"):
        if line.lstrip().startswith(">>>"):  # the rest is a doctest
            head, doctest = before.split(line, 1)
            return _prose(head) + line + doctest
        is_item = bool(_ITEM.match(line))
        if is_item and lines and lines[-1].strip() and not _ITEM.match(lines[-1]) and not _is_below(line, lines):
            lines.append("")
        lines.append(line)
    return _escaped("\n".join(lines)) + rest


def _is_below(line: str, lines: list[str]) -> bool:
    """Whether a list has begun already, so that this line is its next item."""
    indent = len(line) - len(line.lstrip())
    return any(_ITEM.match(it) and len(it) - len(it.lstrip()) == indent for it in lines)


def _escaped(text: str) -> str:
    parts = _SPAN.split(text)
    for place, part in enumerate(parts):
        if place % 2:
            before = parts[place - 1][-1:] or " "
            after = parts[place + 1][:1] or " "
            code = " ".join(part.strip("`").split())
            parts[place] = (
                f"{'' if before in _STARTS else chr(92) + ' '}``{code}``{'' if after in _ENDS else chr(92) + ' '}"
            )
        else:
            items = [(_ITEM.match(it), it) for it in part.split("\n")]
            parts[place] = "\n".join(
                (found[0] + _SPECIAL.sub(r"\\\1", it[found.end() :]))
                if found and (number or not place)
                else _SPECIAL.sub(r"\\\1", it)
                for number, (found, it) in enumerate(items)
            )
    return "".join(parts)
