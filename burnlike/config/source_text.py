"""The text of a config's file: read whole, bounded, and only if it is text."""

import itertools
import os
import re

from burnlike._regular_file import read_regular
from burnlike.errors import ConfigError, ConfigIOError, Problem

from .shipped import shipped_configs

MAX_BYTES = 4 * 2**20
"""Larger files are no configs; a mistaken path to a record of many gigabytes must not be read."""

MAX_DIRECTIVES = 16
"""libyaml compares each directive with all before it: 100,000 take minutes, in which no signal is heard."""

_DIRECTIVE = re.compile("(?:^|[\n\r\x85\u2028\u2029])%")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def read_text(path: "str | os.PathLike[str]") -> str:
    """The text of the file at `path`, UTF-8 with or without a byte order mark.

    Raises:
        ConfigIOError: there is no such file, it can't be read, or it is a directory, a pipe or a device.
        ConfigError: it is larger than 4 MiB or not UTF-8.
    """
    name = os.fspath(path)
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise _io_error(name, "is a directory; give the path of a YAML file") from error
    except FileNotFoundError as error:
        raise _io_error(name, f"no such file{_beside(name)}") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _io_error(name, f"can't be read: {reason}") from error
    if len(data) > MAX_BYTES:
        message = f"larger than {MAX_BYTES // 2**20} MiB: not a config"
        raise ConfigError.of([Problem(message, source=name)])
    return _decode(data, name)


def check_characters(text: str, source: str) -> None:
    """Refuse characters that no YAML text may hold, which binary files are full of.

    Raises:
        ConfigError: names the first one and its place.
    """
    if found := _FORBIDDEN.search(text):
        line, column = _position(text[: found.start()])
        message = f"not a text file: it holds the character U+{ord(found[0]):04X}, which YAML does not allow"
        raise ConfigError.of([Problem(message, source=source, line=line, column=column)])


def check_directives(text: str, source: str) -> None:
    """Refuse more directives than a document has use for; of `%YAML` and `%TAG` a config needs none.

    Raises:
        ConfigError: names the place of the first that is too many.
    """
    found = list(itertools.islice(_DIRECTIVE.finditer(text), MAX_DIRECTIVES + 1))
    if len(found) > MAX_DIRECTIVES:
        line, _ = _position(text[: found[-1].end() - 1])
        message = f"more than {MAX_DIRECTIVES} lines that begin with %, which are directives; a config needs none"
        raise ConfigError.of([Problem(message, source=source, line=line, column=1)])


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _position(data[: error.start].decode("utf-8-sig"))
        what = "UTF-16 or UTF-32 text" if data.startswith(_BYTE_ORDER_MARKS) else f"byte 0x{data[error.start]:02x}"
        message = f"not UTF-8 ({what}); save the file as UTF-8"
        raise ConfigError.of([Problem(message, source=name, line=line, column=column)]) from error


def _position(before: str) -> tuple[int, int]:
    """Line and column, from 1, of what follows the text `before`."""
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return len(lines), len(lines[-1]) + 1


def _beside(name: str) -> str:
    """A hint at a YAML file of nearly the same name in the same directory, or at a shipped config."""
    from burnlike.errors import nearest, nearest_name

    folder, base = os.path.split(name)
    stem, suffix = os.path.splitext(base)
    try:
        files = [other for other in os.listdir(folder or ".") if other.endswith((".yaml", ".yml", suffix or ".yaml"))]
    except OSError:
        return f"; the directory {folder} does not exist either"
    stems = {os.path.splitext(other)[0]: other for other in files}
    if near := nearest_name(stem, set(stems)):
        return f"; did you mean '{stems[near]}'?"
    if base == name and not suffix:
        shipped = [*shipped_configs()]
        return nearest(name, shipped) or f"; shipped configs are {', '.join(shipped)}"
    return "; check the path"


def _io_error(name: str, message: str) -> ConfigIOError:
    problem = Problem(message, source=name)
    return ConfigIOError(str(problem), [problem])
