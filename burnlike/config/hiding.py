"""Keeps what `${env:NAME}` stands for out of messages and files: the reference stands there in its place.

The text of a variable is a `FromEnvironment`, which knows its reference and shows that. Other libraries' errors hold
the bare text; `values_hidden` replaces it there.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from .._env import user_variable
from ..errors import BurnlikeError
from .registry import parts_of

if TYPE_CHECKING:
    from .base import Config

OPENING = "${"
"""Begins a reference; the text itself is written `$${`."""
_NAME = re.compile(r"\$\{env:([^},]+)")
_SHORTEST = 4
"""Characters of a value that is replaced: a shorter one stands in most texts, and is no secret."""


class FromEnvironment(str):
    """Text that an environment variable gave, whole or in part: it is shown and written as the reference it came by.

    So a key or a password stands in no message, no run's config and no report.
    """

    reference: str

    def __new__(cls, text: str, reference: str) -> "FromEnvironment":
        value = super().__new__(cls, text)
        value.reference = reference
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return FromEnvironment, (str(self), self.reference)

    def __repr__(self) -> str:
        return repr(self.reference)


def escaped(value: Any) -> Any:
    """Plain data that reads back as it is: `$${` for `${`, and the reference for what the environment gave."""
    match value:
        case FromEnvironment():
            return value.reference
        case str():
            return value.replace(OPENING, "$" + OPENING)
        case dict():
            return {key: escaped(item) for key, item in value.items()}
        case list():
            return [escaped(item) for item in value]
    return value


def masked(message: str, value: Any) -> str:
    """The message with `${env:NAME}` in place of the text that the environment gave to a value or to a part of it."""
    if isinstance(value, FromEnvironment):
        return message.replace(str(value), value.reference) if value else message
    for _, part, _ in parts_of(value):
        message = masked(message, part)
    return message


def hide_values(text: str, config: str) -> str:
    """The text without the values of the environment variables that a config, its YAML, refers to."""
    values = {user_variable(name.strip()) or "": name.strip() for name in _NAME.findall(config)}
    # The longest first: a shorter one may be a part of it, and would leave the rest to be read.
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
        cause: BaseException | None = error
        seen: set[int] = set()
        while cause is not None and id(cause) not in seen:  # causes may go in a circle
            seen.add(id(cause))
            cause.args = tuple(hide_values(it, text) if isinstance(it, str) else it for it in cause.args)
            if isinstance(cause, OSError) and isinstance(cause.filename, str):
                cause.filename = hide_values(cause.filename, text)
            cause = cause.__cause__ or cause.__context__
        raise
