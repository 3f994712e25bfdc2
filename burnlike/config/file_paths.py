"""Fields that name a file or a directory: marked in their type, so that `burnlike check` can look for it."""

import os
import stat
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec.inspect as mi
from msgspec import Meta

from .hiding import FromEnvironment
from .registry import inlined_in, members_of, parts_of

_MARK, _OR = "names a file", "or is one of"

FilePath = Annotated[str, Meta(extra={_MARK: True})]
"""The type of a field that names a file or a directory, relative to the directory that the program runs in."""


def file_or(*names: str) -> Meta:
    """Beside `str` in `Annotated`: the field names a file, unless its value is one of these."""
    return Meta(extra={_MARK: True, _OR: names})


def missing_files(config: Any) -> Iterator[tuple[str, str]]:
    """The path of each field whose file or directory is missing or not what it should be, and what is wrong."""
    yield from ((path, problem) for path, value in file_fields(config) if (problem := _problem(value)))
    yield from _problems_by_class(config, "")


def _problems_by_class(config: Any, path: str) -> Iterator[tuple[str, str]]:
    """The mistakes that configs themselves find in the files that they name, by `file_problems`."""
    method: Any = getattr(type(config), "file_problems", None)
    yield from ((f"{path}{field}", problem) for field, problem in (method(config) if method else ()))
    for key, value, wanted in parts_of(config):
        is_inlined = wanted and key == inlined_in(type(config))
        yield from _problems_by_class(value, path if is_inlined else f"{path}{key}.")


def file_fields(config: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path of each field that names a file or a directory, and what it names."""
    for key, value, wanted in parts_of(config):
        here = path if wanted and key == inlined_in(type(config)) else f"{path}.{key}" if path else key
        members = members_of(wanted) if wanted and isinstance(value, str) else ()
        marks = [it.extra for it in members if isinstance(it, mi.Metadata) and it.extra and _MARK in it.extra]
        if marks:
            if value not in marks[0].get(_OR, ()):
                yield here, value
        else:
            yield from file_fields(value, here)


def _problem(text: str) -> str:
    path = os.path.abspath(os.path.expanduser(text))
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        path = text.reference if isinstance(text, FromEnvironment) else path
        return f"{path}: {reason}; check the path, or give --no-paths for a config meant for another machine"
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else f"{path} is no regular file and no directory"
