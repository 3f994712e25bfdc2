"""HTML in which text can only be text."""

import html

from ...._terminal import harmless

_EMPTY = ("meta", "img", "path", "line")
"""Elements without content."""


_MOST_ROWS = 1_000
"""Of a table."""


class Html(str):
    """Finished HTML; any other string is text and is escaped."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """An element with Html, or what is shown as text; with attributes, `_` for `-` in their names. None is left out.

    Example:
        >>> tag("p", "a < b", tag("b", 1), class_="x")
        '<p class="x">a &lt; b<b>1</b></p>'
    """
    pairs = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None]
    head = " ".join([name, *(f'{key}="{escaped(value)}"' for key, value in pairs)])
    if name in _EMPTY:
        return Html(f"<{head}/>")
    return Html(f"<{head}>{joined(content)}</{name}>")


def joined(content: object) -> Html:
    pieces = content if isinstance(content, list | tuple) else [content]
    return Html("".join(it if isinstance(it, Html) else escaped(it) for it in pieces if it is not None))


def escaped(value: object) -> str:
    """Text for HTML; codes that change the order or the look of other text are shown as codes."""
    return html.escape(harmless(str(value)), quote=True)


def grid(heads: "list[object]", rows: "list[list[object]]", **attributes: object) -> Html:
    """A table in a box that scrolls where it is too wide."""
    head = tag("tr", *(tag("th", it, scope="col") for it in heads))
    left_out = len(rows) - _MOST_ROWS
    body = [
        tag("tr", *(it if isinstance(it, Html) and it.startswith("<td") else tag("td", it) for it in row))
        for row in rows[:_MOST_ROWS]
    ]
    body += [tag("tr", tag("td", f"... and {left_out:,} more", colspan=len(heads)))] if left_out > 0 else []
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body), **attributes), class_="scroll")
