"""Read files of vectors."""

import json
from pathlib import Path
from typing import Any


class FileError(Exception):
    """A file is missing, can't be read, or is not of the format."""


def read(path: Path) -> list[Any]:
    """The records of a file.

    Raises:
        FileError: it can't be read, is no JSON, or is not a list of records.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"{path}: can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: not a JSON file: {error}") from error
    if not isinstance(found, list):
        raise FileError(f"{path}: expected a list of records, got {type(found).__name__}")
    if not found:
        raise FileError(f"{path}: holds no records")
    return found
