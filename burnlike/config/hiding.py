"""Keeps what `${env:NAME}` stands for out of messages: the reference stands there in its place."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from .._env import user_variable
from ..errors import BurnlikeError

if TYPE_CHECKING:
    from .base import Config

_NAME = re.compile(r"\$\{env:([^},]+)")
_SHORTEST = 4
"""Characters of a value that is replaced: a shorter one stands in most texts, and is no secret."""


def hide_values(text: str, config: str) -> str:
    """The text without the values of the environment variables that a config, its YAML, refers to."""
    values = {user_variable(name.strip()) or "": name.strip() for name in _NAME.findall(config)}
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, f"${{env:{values[value]}}}")
    return text


@contextmanager
def values_hidden(config: "Config") -> Iterator[None]:
    """Errors that are raised within the `with` block, and their causes, don't show such values."""
    try:
        yield
    except Exception as error:
        text = ""
        with suppress(BurnlikeError):  # of a config that no YAML can say
            text = config.to_yaml()
        found: BaseException | None = error
        seen: set[int] = set()
        while found is not None and id(found) not in seen:  # causes may go in a circle
            seen.add(id(found))
            found.args = tuple(hide_values(it, text) if isinstance(it, str) else it for it in found.args)
            if isinstance(found, OSError) and isinstance(found.filename, str):
                found.filename = hide_values(found.filename, text)
            found = found.__cause__ or found.__context__
        raise
