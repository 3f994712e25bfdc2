"""Fields that name a file or a directory: marked in their type, so that `burnlike check` can look for it."""

import os
import stat
import warnings
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import msgspec.inspect as mi
from msgspec import Meta

from .hiding import FromEnvironment
from .registry import inlined_in, members_of, parts_of

_MARK, _OR = "names a file", "or is one of"

FilePath = Annotated[str, Meta(extra={_MARK: True})]
"""The type of a field that names a file or a directory: relative to the file in which it is written, or, by `--set` and
in Python, to the folder that the program runs in.
"""
_OF_RUN = "environment.json"
"""Beside a run's `config.yaml`, whose paths are of the folder in which the run was started."""
_GLOB = "*?["


def file_or(*names: str) -> Meta:
    """Beside `str` in `Annotated`: the field names a file, unless its value is one of these."""
    return Meta(extra={_MARK: True, _OR: names})


class Placed(NamedTuple):
    """A path as the program opens it, or why it could be two files; and a note for the user."""

    path: str
    problem: str = ""
    note: str = ""


def placed(text: str, wanted: mi.Type, source: str) -> Placed:
    """The value of a field that the config file `source` has, from the folder that the program runs in.

    A path is relative to the file. One that is not there, but is in the current folder, is taken from there.
    """
    folder = os.path.dirname(source)
    marks = _marks(wanted)
    if not folder or not marks or text in marks.get(_OR, ()) or text.startswith("~") or "://" in text:
        return Placed(text)
    if not text or os.path.isabs(text) or os.path.exists(os.path.join(folder, _OF_RUN)):
        return Placed(text)
    beside, here = os.path.join(folder, text), text
    try:
        is_beside, is_here = os.path.exists(_fixed(beside)), os.path.exists(_fixed(here))
        if is_here and is_beside and os.path.samefile(_fixed(beside), _fixed(here)):
            return Placed(here)
    except ValueError:  # a zero byte
        return Placed(text)
    if is_beside and is_here:
        where = f"there are {beside} and, in the current folder, {here}"
        return Placed(text, f"{where}; a path is relative to its file: write the whole path, or remove one of them")
    if is_here:
        note = (
            f"'{text}' is not beside {source}, so that of the current folder is taken; a path is relative to its file"
        )
        return Placed(here, "", f"{note}: write {os.path.relpath(here, folder)}")
    return Placed(beside)


def tell(note: str, path: str, source: str, line: int) -> None:
    """Warn of what is in a line of a config file, once."""
    warnings.warn_explicit(f"{path}: {note}", UserWarning, source, line, registry=_told)


_told: dict[Any, Any] = {}


def _fixed(path: str) -> str:
    """The part of a pattern before the first wildcard; a path itself."""
    parts = path.split(os.sep)
    wild = next((number for number, part in enumerate(parts) if any(it in part for it in _GLOB)), len(parts))
    return os.sep.join(parts[:wild]) or os.curdir


def _marks(wanted: mi.Type | None) -> dict[str, Any]:
    """The marks of a field that names a file; empty for any other."""
    members = members_of(wanted) if wanted else ()
    marks = [it.extra for it in members if isinstance(it, mi.Metadata) and it.extra and _MARK in it.extra]
    return marks[0] if marks else {}


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
        if isinstance(value, str) and (marks := _marks(wanted)):
            if value not in marks.get(_OR, ()):
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
