"""Metrics of a run as JSON lines."""

import json
import math
import os
from pathlib import Path
from typing import Any

from ..._atomic_file import replace_file
from ...errors import RunDirError


class MetricsLog:
    """Appends one JSON object a line; a reader may follow the file while it grows.

    Every line has `step` (optimizer steps taken), `epoch` (from 0), `split` (train, valid), `loss` and `time` (Unix
    seconds); those of the training also `lr` and `tokens_per_s`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, line: dict[str, Any]) -> None:
        """Write one line; it is in the file when this returns.

        Raises:
            RunDirError: the file can't be written.
        """
        text = json.dumps({key: _finite(value) for key, value in line.items()}) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise RunDirError(
                f"{self.path} can't be written: {error.strerror}; the last checkpoint is whole"
            ) from error

    def cut_back(self, step: int) -> None:
        """Drop what was logged after `step`, and a last line that was not finished: a resumed run doubles nothing.

        Raises:
            RunDirError: the file can't be read or written.
        """
        try:
            lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
            kept = [line for line in lines if line.endswith(b"\n") and _step(line) <= step]
            if len(kept) != len(lines):
                replace_file(self.path, b"".join(kept))
        except OSError as error:
            raise RunDirError(f"{self.path} can't be rewritten: {error.strerror}") from error

    def read(self) -> list[dict[str, Any]]:
        """All lines."""
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]


def _step(line: bytes) -> float:
    """The step of a line; a damaged one counts as later than any."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
