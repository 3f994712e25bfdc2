"""Fields that name a file or a directory: marked in their type, so that `burnlike check` can look for it."""

import os
import stat
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import msgspec.inspect as mi
from msgspec import Meta

from .node import FromEnvironment
from .registry import fields_of, inlined_in, members_of

_MARK = "names a file"

FilePath = Annotated[str, Meta(extra={_MARK: True})]
"""The type of a field that names a file or a directory, relative to the directory that the program runs in."""


def missing_files(config: Any) -> Iterator[tuple[str, str]]:
    """The path of each field whose file or directory is missing, and what is wrong."""
    for path, value in file_fields(config):
        if problem := _problem(value):
            yield path, problem


def file_fields(config: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path of each field that names a file or a directory, and what it names."""
    if isinstance(config, msgspec.Struct):
        for key, field in fields_of(type(config)).items():
            value, here = getattr(config, field.name), f"{path}.{key}" if path else key
            here = path if key == inlined_in(type(config)) else here
            if isinstance(value, str) and _names_a_file(field.type):
                yield here, value
            else:
                yield from file_fields(value, here)
    elif isinstance(config, list | tuple):
        for place, item in enumerate(config):
            yield from file_fields(item, f"{path}.{place}")
    elif isinstance(config, dict):
        for key, item in config.items():
            yield from file_fields(item, f"{path}.{key}")


def _names_a_file(wanted: mi.Type) -> bool:
    return any(isinstance(it, mi.Metadata) and _MARK in (it.extra or {}) for it in members_of(wanted))


def _problem(text: str) -> str:
    path = os.path.abspath(os.path.expanduser(text))
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        path = text.reference if isinstance(text, FromEnvironment) else path
        return f"{path}: {reason}; check the path, or give --no-paths for a config meant for another machine"
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else f"{path} is no regular file and no directory"
